"""Wrong rules on purpose, made at the drafter's seam: the engine that runs them is the one that serves.

The test must be able to fail. `argmax` is the biased rule that exists for block drafters, reached by their
name; `resample-p` is a drafter that is silent about the rest of its q, so that what replaces a rejected
proposal comes from p instead of the residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from stoker.core.counters import Kind
from stoker.rounds.base import Ask, Drafter, DraftSession, Needs, Opening, Proposal


@dataclass(frozen=True, slots=True)
class Disguised:
    """A drafter under the name of another kind."""

    drafter: Drafter
    kind: Kind

    @property
    def needs(self) -> Needs:
        return self.drafter.needs

    @property
    def width(self) -> int:
        return self.drafter.width

    @property
    def has_q(self) -> bool:
        return self.drafter.has_q

    def open(self, opening: Opening) -> DraftSession:
        return self.drafter.open(opening)

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        return self.drafter.propose(asks)


class Reticent(Disguised):
    """Says of its q only what it gave to its own proposals."""

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        return [_only_its_own(proposal) for proposal in self.drafter.propose(asks)]


def _only_its_own(proposal: Proposal) -> Proposal:
    if proposal.q is None:
        return proposal
    tokens = proposal.tokens
    at = (tokens if isinstance(tokens, mx.array) else mx.array(list(tokens), mx.int32))[:, None]
    own = mx.arange(proposal.q.shape[-1])[None] == at
    return Proposal(proposal.tokens, mx.where(own, proposal.q, 0.0), proposal.one_hot)
