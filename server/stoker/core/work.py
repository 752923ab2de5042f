"""What crosses the thread boundary: ids and numbers down (`Plan`), ids and numbers up (`Outcome`)."""

from dataclasses import dataclass, field
from typing import Protocol

from stoker.core.counters import DraftOff, Kind, RoundCount
from stoker.core.request import Sampling, Speculation


@dataclass(frozen=True, slots=True)
class Release:
    """A sequence leaves; `keep` of its tokens stay in its slot for a later prompt to reuse."""

    id: int
    keep: int


@dataclass(frozen=True, slots=True)
class Join:
    """A sequence takes a slot whose first `cached` columns already hold its prompt's first tokens."""

    id: int
    slot: int
    prompt: tuple[int, ...]
    cached: int
    sampling: Sampling
    probs: int = 0
    post_sampling_probs: bool = False
    speculation: Speculation = field(default_factory=Speculation)


@dataclass(frozen=True, slots=True)
class PrefillWork:
    """Run the prompt's tokens up to index `stop` (exclusive); the last prompt token is never prefilled."""

    id: int
    stop: int


@dataclass(frozen=True, slots=True)
class StepWork:
    """Move a sequence one round on; it may still emit `remaining` tokens."""

    id: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One tick's orders. They are carried out in the order of the fields."""

    release: tuple[Release, ...] = ()
    join: tuple[Join, ...] = ()
    prefill: tuple[PrefillWork, ...] = ()
    step: tuple[StepWork, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.release or self.join or self.prefill or self.step)


@dataclass(frozen=True, slots=True)
class TokenProbs:
    """What the target thought of one emitted token, best alternatives first.

    Natural logarithms of the raw distribution, or probabilities of p itself where the request
    asked for `post_sampling_probs`.
    """

    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tick did for one sequence. `at` is the device thread's stamp of `core.clock`.

    `tokens` are the ids emitted (none for a prefill), `probs` go with them where asked for,
    `processed` is the number of prompt tokens now in the slot, cached ones included. `round` counts
    the verify round, if one ran; `kind` is the row's drafter and `off` why it does not draft (now).
    """

    id: int
    at: float
    tokens: tuple[int, ...] = ()
    probs: tuple[TokenProbs, ...] = ()
    processed: int = 0
    round: RoundCount | None = None
    kind: Kind | None = None
    off: DraftOff | None = None
    rule: str = ""
    """The acceptance rule of `round`, by its stable name."""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """What the scheduler must know of the engine, fixed at start."""

    slots: int
    context: int
    """Columns a slot holds: prompt and answer together."""
    recurrent: bool = False
    """True: a slot's content can be continued or dropped, but not cut."""


class Ticker(Protocol):
    """The engine as the scheduler sees it. Called on the device thread only."""

    def tick(self, plan: Plan) -> list[Outcome]: ...
