"""Yield governors of prompt lookup: how wide a row may draft, when it pauses, when it comes back.

State machines over numbers, without clock or array. They decide about cost only: the acceptance rule
and the emitted stream never depend on them. Sources: spec/drafters.md section 14, spec/scheduler.md
section 6, spec/speculative-acceptance.md (the floor).

Shared: an EMA of accepted proposals, EMA = (EMA + accepted) / 2, and three misses in a row pause.
"""

from dataclasses import dataclass
from typing import Protocol

MISSES = 3
FIRST_PAUSE, LONGEST_PAUSE = 4, 32
NARROW = 2
WIDE_FROM = 1.5
"""Gated: the accepted EMA from which a row drafts at full width."""
FLOOR = 4.0
"""Floor: tokens emitted a round (accepted and bonus) that a round must yield on average."""
SHADOWS = 7
SHADOWS_WITHOUT_FLOOR = 2


class Governor(Protocol):
    @property
    def width(self) -> int:
        """Proposals that the next round may hold; 0 while paused."""
        ...

    @property
    def paused(self) -> bool: ...

    def observe(self, accepted: int) -> None:
        """A verify round ended; the only evidence about yield."""
        ...

    def passed(self, matched: int) -> None:
        """A plain step: `matched` of its emitted tokens were what a shadow look-up had said."""
        ...


@dataclass(slots=True)
class Graded:
    """Width follows the EMA; a pause lasts some rounds, twice as many each time, until a hit (Metal, CPU)."""

    most: int
    ema: float = -1.0
    misses: int = 0
    pause: int = 0
    next_pause: int = FIRST_PAUSE

    def __post_init__(self) -> None:
        self.ema = float(self.most)

    @property
    def paused(self) -> bool:
        return self.pause > 0

    @property
    def width(self) -> int:
        return 0 if self.paused else max(1, min(round(2 * self.ema) + 2, self.most))

    def observe(self, accepted: int) -> None:
        self.ema = (self.ema + accepted) / 2
        if accepted:
            self.misses, self.next_pause = 0, FIRST_PAUSE
            return
        self.misses += 1
        if self.misses >= MISSES:
            self.misses, self.pause = 0, self.next_pause
            self.next_pause = min(2 * self.next_pause, LONGEST_PAUSE)

    def passed(self, matched: int) -> None:
        self.pause = max(self.pause - 1, 0)


@dataclass(slots=True)
class Gated:
    """Narrow until it pays, paused by misses or by a yield under the floor, resumed by shadow matches (CUDA).

    A round that meets the floor can repay the debt of the start. An isolated round without any
    accepted proposal is forgiven once if the accepted EMA before it was at least the floor.
    """

    most: int
    floor: float = FLOOR
    """0: no floor (the command line)."""
    ema: float = 1.0
    rounds: int = 0
    misses: int = 0
    matched: int = 0
    paused: bool = False
    probation: bool = False
    low: int = 0
    """Rounds below the floor in a row."""

    @property
    def width(self) -> int:
        if self.paused:
            return 0
        return self.most if self.ema >= WIDE_FROM and not self.probation else min(NARROW, self.most)

    def observe(self, accepted: int) -> None:
        before, self.ema = self.ema, (self.ema + accepted) / 2
        self.rounds += 1
        self.misses = 0 if accepted else self.misses + 1
        self.low = self.low + 1 if accepted + 1 < self.floor else 0
        failed_probation = self.probation and not accepted
        if accepted >= min(NARROW, self.most):
            self.probation = False
        graced = accepted == 0 and self.low == 1 and before >= self.floor
        starving = self.rounds >= 2 and self.low > 0 and self.ema + 1 < self.floor
        if failed_probation or self.misses >= MISSES or (starving and not graced):
            self.paused, self.matched = True, 0

    def passed(self, matched: int) -> None:
        if not self.paused:
            return
        self.matched = self.matched + matched if matched else 0
        if self.matched >= (SHADOWS if self.floor else SHADOWS_WITHOUT_FLOOR):
            self.paused, self.probation = False, True
            self.ema, self.misses, self.low, self.rounds = 1.0, 0, 0, 0
