"""An oracle drafter: the target's own continuation, corrupted at a random depth.

Random drafters accept nothing and so test nothing.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import mlx.core as mx

from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.evidence import Acceptance
from stoker.rounds.session import NetworkSession


@dataclass
class OracleSession:
    prompt: tuple[int, ...]
    truth: Sequence[int]
    rng: random.Random
    most: int
    emitted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    closed: int = -1

    @property
    def wants_round(self) -> bool:
        return True

    @property
    def off(self) -> DraftOff | None:
        return None

    def reach(self, limit: int) -> Sequence[float]:
        return [1.0] * min(limit, self.most)

    def read(self, stop: int, features: Features) -> None:
        pass

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        self.emitted += verdict.emitted
        if proposed:
            self.accepted.append(verdict.accepted)

    def close(self, keep: int) -> None:
        self.closed = keep


@dataclass
class Learned(NetworkSession, OracleSession):
    """Says what it has learned from its rounds, as the sessions of real drafters do."""

    acceptance: Acceptance = field(default_factory=Acceptance)

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        super().observe(verdict, proposed, features)
        self.learn(verdict, proposed)


@dataclass
class Oracle:
    """Drafts `truth[prompt]`; a proposal is wrong with probability `error`, and its length is random up to `most`."""

    truth: Mapping[tuple[int, ...], Sequence[int]]
    most: int = 7
    error: float = 0.25
    kind: Kind = Kind.DRAFT_MODEL
    vocab: int = 128
    on_device: bool = False
    full: bool = False
    """True: always as long as allowed."""
    sessions: list[OracleSession] = field(default_factory=list)

    @property
    def needs(self) -> Needs:
        return Needs()

    @property
    def width(self) -> int:
        return self.most

    @property
    def has_q(self) -> bool:
        return False

    def open(self, opening: Opening) -> OracleSession:
        session = OracleSession(
            opening.prompt, self.truth.get(opening.prompt, ()), random.Random(opening.id), opening.most
        )
        self.sessions.append(session)
        return session

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        return [self._draft(cast("OracleSession", ask.session), ask.limit) for ask in asks]

    def _draft(self, session: OracleSession, limit: int) -> Proposal:
        count = min(limit, session.most) if self.full else session.rng.randint(0, min(limit, session.most))
        ahead = list(session.truth[len(session.emitted) : len(session.emitted) + count])
        tokens = [(t + 1) % self.vocab if session.rng.random() < self.error else t for t in ahead]
        return Proposal(mx.array(tokens, mx.int32) if self.on_device and tokens else tuple(tokens))
