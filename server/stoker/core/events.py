"""What a request's stream says, in order: `Progress`*, `Tokens`*, then `Finished`, `Embedded` or `Failed`."""

from dataclasses import dataclass, field
from enum import StrEnum

from stoker.core.counters import DraftOff, DraftSummary
from stoker.core.errors import ServerError
from stoker.core.timings import Timings
from stoker.core.work import TokenProbs, Vector


class StopType(StrEnum):
    """Why an answer ended, in llama-server's words."""

    NONE = "none"
    EOS = "eos"
    WORD = "word"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Progress:
    """The prompt is being read. The first one is sent before its first chunk runs."""

    total: int
    cached: int
    processed: int
    elapsed_ms: float
    """Milliseconds since the request took its slot."""
    timings: Timings = field(default=Timings(), compare=False)
    """Of the prompt so far; `elapsed_ms` and its `prompt_ms` differ by the time in the queue."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One frame's worth: a token and the text that it makes showable.

    `text` is empty while it may still become a stop string; a token that ends inside a
    character makes no piece, its bytes come with the next one.
    """

    token: int
    text: str
    count: int
    """Tokens generated so far, this one included."""
    timings: Timings
    probs: TokenProbs | None = None
    completes_stop: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a healthy request, with everything that only the end knows."""

    stop: StopType
    stopping_word: str
    text: str
    """The whole answer; a character cut at the end is withheld, as it was from the pieces."""
    tokens: tuple[int, ...]
    """Every generated id, the end token and a stop string's tokens included."""
    pieces: tuple[Piece, ...]
    """The pieces that carry probabilities, a stop string's left out; empty when none were asked for."""
    slot: int
    prompt_tokens: int
    cached_tokens: int
    truncated: bool
    has_new_line: bool
    timings: Timings
    draft: DraftSummary | None = None
    draft_off: DraftOff | None = None
    """Why it was not drafted; None if it was."""
    rule: str = ""
    """The acceptance rule of its rounds, empty if none ran."""
    dropped: int = 0
    """Tokens that context shifts took out of the slot."""

    @property
    def tokens_in_slot(self) -> int:
        """llama-server's `tokens_cached`: what the slot holds at the end."""
        return max(self.prompt_tokens + len(self.tokens) - self.dropped - 1, 0)


def nothing() -> Finished:
    """The answer to an empty prompt: nothing is evaluated, nothing is generated."""
    return Finished(
        stop=StopType.NONE,
        stopping_word="",
        text="",
        tokens=(),
        pieces=(),
        slot=0,
        prompt_tokens=0,
        cached_tokens=0,
        truncated=False,
        has_new_line=False,
        timings=Timings(),
    )


@dataclass(frozen=True, slots=True)
class Embedded:
    """The end of a request for an embedding: one vector, or one a token where nothing was pooled."""

    vectors: tuple[Vector, ...]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Failed:
    error: ServerError


Event = Progress | Tokens | Finished | Embedded | Failed
