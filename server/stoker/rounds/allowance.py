"""Allowance: the time that trials of drafters which do not pay may cost. Host arithmetic only: no array, no clock."""

from collections import defaultdict

PROBE_SHARE = 0.01
"""Of the time in which a drafter is parked."""


class Allowance:
    """Seconds by company of drafters: they grow while it is parked, a trial takes them, and what it overran is owed."""

    def __init__(self) -> None:
        self._saved: defaultdict[str, float] = defaultdict(float)

    def grow(self, company: str, seconds: float) -> None:
        """So much time went by in which it was parked."""
        self._saved[company] += seconds * PROBE_SHARE

    def take(self, company: str, extra: float) -> bool:
        """True if a trial that should take so much longer than a plain tick is borne; its cost is paid then."""
        if self._saved[company] < max(extra, 0.0):
            return False
        self._saved[company] = 0.0
        return True

    def owe(self, company: str, seconds: float) -> None:
        """The trial took so much longer than it should have."""
        self._saved[company] -= max(seconds, 0.0)
