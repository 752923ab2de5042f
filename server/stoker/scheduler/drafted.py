"""What speculation did for one request, gathered from its outcomes."""

from stoker.core.counters import DraftCounters, DraftOff, DraftSummary, Kind
from stoker.core.request import Speculation
from stoker.core.work import Outcome


class Drafted:
    """Counts are of what was delivered; reasons are the device's, the newest one counts."""

    def __init__(self, wish: Speculation) -> None:
        self.counters = DraftCounters()
        self.kind: Kind | None = None
        self.rule = ""
        self.now = DraftOff.DISABLED if wish.disabled else None
        """Why the request does not draft at the moment; None while it may, or as long as nothing is known."""
        self._last = self.now

    def see(self, outcome: Outcome) -> None:
        """An outcome of a round, plain or not, has come."""
        self.kind = outcome.kind or self.kind
        self.now = outcome.off
        self._last = outcome.off or self._last

    def count(self, outcome: Outcome, delivered: int) -> None:
        """Of the outcome's tokens, `delivered` became part of the answer."""
        if outcome.round is not None:
            self.counters.add(outcome.round, delivered)
            self.rule = outcome.rule or self.rule

    @property
    def summary(self) -> DraftSummary | None:
        return self.counters.summary(self.kind)

    @property
    def off(self) -> DraftOff | None:
        """Why no round ran; None if one did.

        A drafter that gave no reason had no proposal.
        """
        if self.counters.rounds:
            return None
        return self._last or (DraftOff.NO_PROPOSAL if self.kind else DraftOff.NO_DRAFTER)
