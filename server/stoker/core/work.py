"""What crosses the thread boundary: ids and numbers down (`Plan`), ids and numbers up (`Outcome`)."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from stoker.core.counters import DraftOff, Kind, RoundCount
from stoker.core.request import Grammar, Pooling, Sampling, Speculation

Vector = tuple[float, ...]


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
    grammar: Grammar = field(default_factory=Grammar)
    answered: int = 0
    """So many tokens at the prompt's end belong to the answer already."""
    source: int = -1
    """The slot that the `cached` columns are copied from; -1: its own slot has them, or `kept` has."""
    kept: int = -1
    """The key of the kept content that they are taken from."""
    adapters: tuple[float, ...] = ()
    """The scale of each adapter; none where none is loaded."""
    pooling: Pooling | None = None
    """The row generates nothing: what its prompt looks like behind the last layer is its outcome."""


@dataclass(frozen=True, slots=True)
class PrefillWork:
    """Run the prompt's tokens up to index `stop` (exclusive); the last one only of a row that generates nothing."""

    id: int
    stop: int


@dataclass(frozen=True, slots=True)
class StepWork:
    """Move a sequence one round on; it may still emit `remaining` tokens."""

    id: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Keep:
    """A slot's content is copied aside under `key`, before something else takes its place."""

    slot: int
    key: int


class SlotAction(StrEnum):
    """What a client may do with an idle slot, by the name in the URL."""

    SAVE = "save"
    RESTORE = "restore"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class SlotWork:
    """Act on an idle slot. `tokens` are what it holds, `path` is the file of a save or a restore."""

    id: int
    slot: int
    action: SlotAction
    path: str = ""
    tokens: tuple[int, ...] = ()
    adapters: tuple[float, ...] = ()
    """The scales under which the slot was filled, or is to be."""


@dataclass(frozen=True, slots=True)
class Filed:
    """What such work did: the tokens that were saved, restored or erased, the file's bytes, the time it took."""

    tokens: tuple[int, ...]
    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """One tick's orders. They are carried out in this order: release, slots, drop, keep, join, prefill, step."""

    release: tuple[Release, ...] = ()
    join: tuple[Join, ...] = ()
    prefill: tuple[PrefillWork, ...] = ()
    step: tuple[StepWork, ...] = ()
    slots: tuple[SlotWork, ...] = ()
    drop: tuple[int, ...] = ()
    """Keys of kept contents that are given up."""
    keep: tuple[Keep, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.release or self.join or self.prefill or self.step or self.slots or self.drop or self.keep)

    @property
    def moves(self) -> bool:
        """True if slots change their content other than by a step."""
        return bool(self.join or self.prefill or self.slots or self.keep)


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
    filed: Filed | None = None
    """Of a `SlotWork`, whose id this is."""
    vectors: tuple[Vector, ...] = ()
    """Of a row that pools, once its prompt is read: one, or one a token."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What the scheduler must know of the engine, fixed at start."""

    slots: int
    context: int
    """Columns a slot holds: prompt and answer together."""
    recurrent: bool = False
    """True: a slot's content can be continued or dropped, but not cut."""
    bytes_per_column: int = 0
    """Keys and values of one column of one slot."""
    bytes_per_slot: int = 0
    """Recurrent state of one slot."""


class Ticker(Protocol):
    """The engine as the scheduler sees it. Called on the device thread only."""

    def tick(self, plan: Plan) -> list[Outcome]: ...


class Sleeper(Protocol):
    """Gives the model up and brings it back. Called on the device thread only."""

    def sleep(self) -> None: ...

    def wake(self) -> None: ...
