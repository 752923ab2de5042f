"""The real engine played for the clock: an oracle drafter around a real one, and harnesses that note times.

The oracle: a decided target (`gpu_shapes.decide`) says what follows each token, so the truth is known from
the anchor alone and stays right wherever the text goes. Each position of a proposal is that truth with
probability `right`, and a wrong token else, independently. The real drafter runs first and its proposals
must be computed before the oracle's count (`mx.depends`): its cost is in every round, its advice in none.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import mlx.core as mx

from benchmarks.gpu_shapes import Drafted
from rounds.harness import GREEDY, Harness, Wanted
from stoker.core.clock import now
from stoker.core.counters import Kind
from stoker.core.request import Speculation
from stoker.core.work import Outcome
from stoker.models.target import Target
from stoker.rounds.base import Ask, Companion, DraftSession, Needs, Opening, Proposal
from stoker.rounds.evidence import Acceptance
from stoker.rounds.mtp_assistant import MtpAssistant
from stoker.rounds.speculator import Speculation as How

PROMPT = 64
WARM = 4
"""Ticks before the clock counts: the first ones also read the prompts."""
TAIL = 16
"""The last tokens of the first row to end are not counted: their rounds are narrower."""


@dataclass
class Oracle:
    """A drafter that runs another one and knows better."""

    drafted: Drafted
    right: float
    step: int
    vocab: int
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    acceptance: Acceptance = field(default_factory=Acceptance)

    @property
    def kind(self) -> Kind:
        return self.drafted.drafter.kind

    @property
    def needs(self) -> Needs:
        return self.drafted.drafter.needs

    @property
    def width(self) -> int:
        return self.drafted.drafter.width

    @property
    def has_q(self) -> bool:
        return self.drafted.drafter.has_q

    @property
    def companions(self) -> tuple[Companion, ...]:
        drafter = self.drafted.drafter
        return () if isinstance(drafter, MtpAssistant) else (drafter,)

    def open(self, opening: Opening) -> DraftSession:
        self.drafted.drafter.acceptance = self.acceptance
        return self.drafted.drafter.open(opening)

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        made = self.drafted.drafter.propose(asks)
        most = max(map(len, made))
        known = mx.array([self.ahead(ask.anchor, most) for ask in asks], mx.int32)
        own = [it.tokens for it in made if isinstance(it.tokens, mx.array)]
        known = mx.depends(known, own)
        return [Proposal(known[n, : len(it)]) for n, it in enumerate(made)]

    def ahead(self, anchor: int, count: int) -> list[int]:
        """What follows the anchor, each token replaced with probability 1 - right."""
        truth = [(anchor + self.step * (n + 1)) % self.vocab for n in range(count)]
        wrong = [(token + 1 + self.rng.randrange(self.vocab - 1)) % self.vocab for token in truth]
        return [t if self.rng.random() < self.right else w for t, w in zip(truth, wrong, strict=True)]


@dataclass(frozen=True)
class Rate:
    """A run while all its rows were busy."""

    tokens: int
    ticks: int
    seconds: float
    strays: int
    """Emitted tokens that the decided target should not have said."""

    @property
    def per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def tick(self) -> float:
        return self.seconds / self.ticks


class Timed(Harness):
    """Ends with the first row, and notes when each tick returned."""

    def __init__(self, target: Target, how: How | None, step: int) -> None:
        super().__init__(target, how)
        self.step, self.count = step, 0
        self.marks: list[tuple[float, int]] = []
        """After each tick: the time, and all rows' tokens so far."""

    def play(self, rows: int, count: int, seed: int = 0, *, most: int = -1) -> Rate:
        """`rows` requests of `count` tokens each, with at most `most` proposals a round."""
        for slot in range(self.target.slots):
            self.target.truncate(slot, 0)
        rng, self.count, self.marks = random.Random(seed), count, []
        wanted = [
            Wanted(_prompt(rng, self.target.vocab), count, GREEDY, speculation=Speculation(most=most))
            for _ in range(rows)
        ]
        texts = self.run(wanted, ticks=100_000)
        if self.errors:
            raise next(iter(self.errors.values()))
        return self._rate([[want.prompt[-1], *texts[id]] for id, want in enumerate(wanted)])

    def _rate(self, texts: Sequence[Sequence[int]]) -> Rate:
        vocab = self.target.vocab
        strays = sum(b != (a + self.step) % vocab for text in texts for a, b in pairwise(text))
        first = min(WARM, len(self.marks) - 2)
        (begun, before), (ended, after) = self.marks[first], self.marks[-1]
        return Rate(after - before, len(self.marks) - 1 - first, ended - begun, strays)

    def _over(self, id: int, want: Wanted) -> bool:
        return self._ending or super()._over(id, want)

    @property
    def _ending(self) -> bool:
        return any(len(tokens) >= self.count - TAIL for tokens in self.tokens.values())

    def _take(self, outcomes: Sequence[Outcome]) -> None:
        super()._take(outcomes)
        if not self.marks or not self._ending or len(self.marks) < 2:
            self.marks.append((now(), sum(map(len, self.tokens.values()))))


def _prompt(rng: random.Random, vocab: int) -> tuple[int, ...]:
    return tuple(rng.randrange(vocab) for _ in range(PROMPT))
