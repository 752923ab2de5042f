"""What the sessions of all drafters with a network have in common."""

from collections.abc import Sequence

from stoker.core.counters import DraftOff
from stoker.rounds.budget import Acceptance


class NetworkSession:
    """Drafts whenever it may draft at all; the budget, not a governor, decides whether it pays."""

    __slots__ = ()

    most: int
    """Proposals that a round may hold."""
    acceptance: Acceptance

    @property
    def wants_round(self) -> bool:
        return self.most > 0

    @property
    def off(self) -> DraftOff | None:
        return None

    def reach(self, limit: int) -> Sequence[float]:
        return self.acceptance.reach(min(limit, self.most))
