"""Row: what the device side knows about one sequence. Lives and dies on the device thread."""

from dataclasses import dataclass, field

from stoker.acceptance.select import Rule
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Sampling
from stoker.core.work import Join, Vector
from stoker.models.sampling import Row as Draws
from stoker.rounds.base import DraftSession
from stoker.rounds.pooling import Pool


@dataclass(slots=True)
class Drafting:
    """A row's side of speculation: its drafter's session, its rule, or the reason that it has neither."""

    session: DraftSession | None = None
    kind: Kind | None = None
    rule: Rule = Rule.MATCH
    off: DraftOff | None = DraftOff.NO_DRAFTER
    parked: DraftOff | None = None
    """Why the budget does not let it draft, alone or among so many rows; None while it does."""
    calm: bool = False
    """True while its next rounds will be plain ones, as far as anybody knows."""
    rounds: int = 0
    """In which it drafted."""
    forbidden: bool = False
    """True if its grammar forbade all of its last proposals."""
    asked: bool = False
    """True once the budget had to decide about it."""

    @property
    def wants_round(self) -> bool:
        return self.session is not None and self.session.wants_round

    @property
    def reason(self) -> DraftOff | None:
        """Why the row does not draft at present."""
        if self.session is None:
            return self.off
        return self.parked or (DraftOff.GRAMMAR if self.forbidden else self.session.off)


@dataclass(slots=True)
class Row:
    """A sequence in its slot.

    Between ticks the slot's committed length is the number of the sequence's tokens minus one:
    the newest token, the anchor, has not been run yet (architecture, "Target, capture and rollback").
    """

    id: int
    slot: int
    prompt: tuple[int, ...]
    draws: Draws
    sampling: Sampling
    """As the request has it; `draws` are greedy under the argmax rule."""
    seed: int
    feedback: bool
    probs: int
    post_sampling: bool
    anchor: int
    position: int
    """Absolute index of the anchor in the sequence: the first generated token has index len(prompt)."""
    processed: int
    drafting: Drafting = field(default_factory=Drafting)
    ended: bool = False
    """True once it has emitted an end token."""
    pool: Pool | None = None
    """Of a row that generates nothing."""

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """What it pooled, once its whole prompt is read."""
        return self.pool.vectors() if self.pool is not None and self.processed == len(self.prompt) else ()

    @classmethod
    def open(cls, join: Join, draws: Draws, drafting: Drafting, pool: Pool | None = None) -> "Row":
        """The row of a sequence whose prompt is yet to be read from `join.cached` on."""
        return cls(
            id=join.id,
            slot=join.slot,
            prompt=join.prompt,
            draws=draws,
            sampling=join.sampling,
            seed=join.sampling.seed,
            feedback=join.sampling.feedback or draws.constraint is not None,
            probs=join.probs,
            post_sampling=join.post_sampling_probs,
            anchor=join.prompt[-1],
            position=len(join.prompt) - 1,
            processed=join.cached,
            drafting=drafting,
            pool=pool,
        )
