"""What a drafter is: the two protocols that every kind implements, and what passes through them.

A `Drafter` is stateless and shared by all requests; it drafts for all its rows in one call. A
`DraftSession` holds everything that belongs to one request, its governor included. Proposals cost
speed only, never tokens: under the default rule the emitted stream does not depend on them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import mlx.core as mx

from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Sampling

Features = Mapping[int, mx.array]
"""Residual streams of one row behind captured layers: layer → [columns, H], on the device."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a drafter must be fed. Declared once, so that nobody has to probe."""

    capture: tuple[int, ...] = ()
    """Decoder layers of the target whose residual streams it reads."""
    forwards: bool = False
    """True: it runs a network, whose time is part of the tick's."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A request as a drafter learns of it. Its slot has the same number in a drafter's own caches.

    The target's columns may have come from another slot, a file or an undrafted row: a drafter with caches
    keeps its own account of what they hold, and reuses only what agrees with `prompt`.
    """

    id: int
    slot: int
    prompt: tuple[int, ...]
    cached: int
    """Leading prompt tokens that the target's slot already held."""
    sampling: Sampling
    most: int
    """Proposals a round may hold."""
    source: int = -1
    """The slot that the target's columns were copied from just now, if they were."""
    kept: int = -1
    """The key of the kept content that they were taken from, if they were."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Tokens for one row. On the device or on the host, but their number is known to the host.

    `q` [n, V] is the distribution that they were drawn from, only where it was asked for; `one_hot`
    marks a deterministic drafter, whose q is 1 on what it says.
    """

    tokens: Sequence[int] | mx.array = ()
    """Host ids, or int32 [n]."""
    q: mx.array | None = None
    one_hot: bool = False

    def __len__(self) -> int:
        return self.tokens.shape[0] if isinstance(self.tokens, mx.array) else len(self.tokens)

    def on_host(self) -> "Proposal":
        """The same with host ids: a synchronisation where they are on the device."""
        if not isinstance(self.tokens, mx.array):
            return self
        return Proposal(tuple(cast("list[int]", self.tokens.tolist())), self.q, self.one_hot)

    def first(self, n: int) -> "Proposal":
        """The first n proposals."""
        q = None if self.q is None else self.q[:n]
        return self if n >= len(self) else Proposal(self.tokens[:n], q, self.one_hot)


NOTHING = Proposal()


@dataclass(frozen=True, slots=True)
class Drawing:
    """How proposals are drawn."""

    coupled: bool = True
    """Proposals share the target's noise (purpose 0); else they have noise of their own (purpose 1)."""
    with_q: bool = False


class DraftSession(Protocol):
    """Everything a drafter knows about one request."""

    @property
    def wants_round(self) -> bool:
        """True if it may have proposals now. Cheap, host only; asked before the next forward is built."""
        ...

    @property
    def off(self) -> DraftOff | None:
        """Why it does not draft at present; None while it does."""
        ...

    def reach(self, limit: int) -> Sequence[float]:
        """For each proposal that it could make now, at most `limit`: the probability that it is accepted. Host only."""
        ...

    def read(self, stop: int, features: Features) -> None:
        """The prompt's tokens up to `stop` have been run; `features` are those of the columns just run."""
        ...

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        """A round ended: what was emitted (all of it, plain rounds too), and the kept columns' features."""
        ...

    def close(self, keep: int) -> None:
        """The request leaves; `keep` of its tokens stay in its slot."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One row's turn to draft: at most `limit` proposals behind its anchor, the token of index `position`."""

    session: DraftSession
    anchor: int
    position: int
    limit: int
    drawing: Drawing = field(default_factory=Drawing)


class Companion(Protocol):
    """What holds columns of its own beside the target's slots, and keeps them aside when the target's are."""

    @property
    def bytes_per_column(self) -> int:
        """Of one slot."""
        ...

    def keep(self, slot: int, key: int) -> None:
        """A slot's columns are copied aside, before something else takes their place."""
        ...

    def drop(self, keys: Iterable[int]) -> None:
        """What was kept under these keys is given up."""
        ...


class Drafter(Protocol):
    @property
    def kind(self) -> Kind: ...

    @property
    def needs(self) -> Needs: ...

    @property
    def width(self) -> int:
        """Most proposals that a round can hold."""
        ...

    @property
    def has_q(self) -> bool:
        """True if proposals can carry their distribution (a one-hot one counts)."""
        ...

    def open(self, opening: Opening) -> DraftSession: ...

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        """Proposals for each row, possibly none. Device work is built, not evaluated."""
        ...
