"""Two widths of a round, of which the one that emits more per second is held; the other challenges it now and then.

Muse Glimmer's rule (spec/drafters.md section 16): it begins narrow. Windows of rounds measure what is
emitted per second. The other arm is tried for a window; it must be clearly better to be adopted, is
given up early where it is far worse, and waits longer after every loss.
"""

from dataclasses import dataclass, field

WARM_UP = 8
"""Rounds that are not measured."""
WINDOW = 32
"""Rounds of a measurement."""
ADOPT, GIVE_UP = 1.02, 0.65
"""Of the held arm's rate: above the first the challenger is adopted, below the second it is given up early."""
EARLY = 4
"""Rounds before it may be given up."""
FIRST_WAIT, LONGER, LONGEST_WAIT = 4, 4, 64
"""Windows between two challenges, and how they grow with every loss."""


@dataclass(slots=True)
class _Measured:
    rounds: int = 0
    emitted: float = 0.0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.emitted / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class Arms:
    """Evidence outlives requests: one of these serves all of them."""

    low: int
    high: int
    held: int = 0
    """The width that is used when nothing challenges it."""
    challenging: bool = False
    _warm_up: int = WARM_UP
    _wait: int = 1
    """Held windows to go before the next challenge."""
    _next_wait: int = FIRST_WAIT
    _rate: float = 0.0
    """The held arm's, in its last window."""
    _now: _Measured = field(default_factory=_Measured)

    def __post_init__(self) -> None:
        self.held = self.held or self.low

    @property
    def width(self) -> int:
        """Columns of the next round, at most."""
        return self.low + self.high - self.held if self.challenging else self.held

    def observe(self, width: int, emitted: float, seconds: float) -> None:
        """A round took so long and emitted so many tokens. One that something else made narrower tells nothing."""
        if width != self.width or self.low == self.high:
            return
        if self._warm_up:
            self._warm_up -= 1
            return
        now = self._now
        now.rounds, now.emitted, now.seconds = now.rounds + 1, now.emitted + emitted, now.seconds + seconds
        if self.challenging and EARLY <= now.rounds < WINDOW and now.rate < GIVE_UP * self._rate:
            self._lose()
        elif now.rounds == WINDOW:
            self._decide()

    def _decide(self) -> None:
        """A window is full."""
        rate = self._now.rate
        if not self.challenging:
            self._rate, self._now = rate, _Measured()
            self._wait -= 1
            self.challenging = self._wait <= 0
        elif rate > ADOPT * self._rate:
            self.held, self._rate = self.width, rate
            self._wait = self._next_wait = FIRST_WAIT
            self._stop()
        else:
            self._lose()

    def _lose(self) -> None:
        self._wait = self._next_wait
        self._next_wait = min(self._next_wait * LONGER, LONGEST_WAIT)
        self._stop()

    def _stop(self) -> None:
        self.challenging, self._now = False, _Measured()
