"""What all frames of one HTTP request share, so that shaping functions stay pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.core.events import Piece
from stoker.routes.body import Json
from stoker.routes.schema.job import Options
from stoker.routes.service import Tokenizer
from stoker.routes.shape.probs import entries
from stoker.text.reply import Parsing


@dataclass(frozen=True, slots=True)
class Subject:
    id: str
    created: int
    """Unix seconds."""
    model: str
    build: str
    options: Options
    tokenizer: Tokenizer
    special: bool = False
    prefill: str = ""
    prefill_thought: str = ""
    lead: str = ""
    parsing: Parsing = field(default_factory=Parsing)

    def probabilities(self, *pieces: Piece) -> list[Json]:
        post = self.options.post_sampling_probs
        return entries(pieces, self.tokenizer, post_sampling=post, special=self.special)


@dataclass(frozen=True, slots=True)
class Part:
    """One sequence of the request. `index` is what frames tell it by."""

    index: int
    prompt: tuple[int, ...]
    settings: Mapping[str, object]
