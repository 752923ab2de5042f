"""What the sessions of all drafters with a network have in common."""

from collections.abc import Sequence

from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff
from stoker.rounds.evidence import Acceptance


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

    def learn(self, verdict: Verdict, proposed: int) -> None:
        """What a round, plain or not, says of the drafter."""
        if proposed:
            self.acceptance.observe(verdict.tested, verdict.accepted)
        else:
            self.acceptance.age(len(verdict.emitted))

    def reach(self, limit: int) -> Sequence[float]:
        return self.acceptance.reach(min(limit, self.most))
