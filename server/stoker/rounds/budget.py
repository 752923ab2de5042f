"""The budget: how wide a tick may be. Measured cost against expected yield, so that drafting never costs.

Rules of this file
1. `cost(rows, width)` of a tick, in seconds, is measured by every tick (`costs.py`).
2. A session says what it expects to be accepted, by depth (`Acceptance`); what became of such promises
   scales the next ones.
3. The tick's width is the one with the most expected tokens per second, the drafters' forwards
   included. Width 1 is a plain tick.
4. A drafter that does not pay is tried again now and then, within a share of the time (`allowance.py`).
5. What is known of a drafter (`Profile`) is remembered for the pair and the machine; one that nothing is
   known of yet is measured by a few rounds before it can be declined.

Host arithmetic only: no array, no clock. spec/architecture.md section 5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.core.info import BudgetView, DraftVerdict, Standing, TickCost
from stoker.rounds.allowance import Allowance
from stoker.rounds.costs import CostTable
from stoker.rounds.evidence import Acceptance

MARGIN = 1.03
"""A wider tick must promise this much more than a plain one."""
EAGER = 0.92
"""The same of rows that are new: what others taught may not hold for them, and a few rounds tell."""
NEW = 4
"""Drafted rounds after which a row is not new any more."""
DEAREST = 20.0
"""Plain ticks, at most, that a trial is taken to have cost: a machine that slept says nothing of its drafters."""
MEMORY = 0.98
"""Of what became of promises, at every drafted tick."""
FORGIVING = 0.995
"""Of the same, at every tick in which the drafters are parked: nobody is judged for ever by their past."""
DOUBT = 8.0
"""Proposals, accepted as promised, that promises begin with."""
PROFILE = 4
"""Requests after which a drafter's verdict counts as settled."""
ENOUGH = 6.0
"""Rounds of evidence, decayed, without which an adopted drafter is not declined: about seven."""


@dataclass(slots=True)
class Profile:
    """How a drafter fares with its target, over all requests. It outlives the process."""

    acceptance: Acceptance
    most: int = 0
    """Proposals that a round may hold."""
    requests: int = 0
    """Those in which the budget had to decide about it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one row could draft: the probability that it gets so far, for each proposal it may make."""

    reach: Sequence[float]
    new: bool = False
    """True while the row has hardly drafted."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A tick's width in columns, and what it promises."""

    width: int
    gain: float
    """Expected tokens per second over those of a plain tick."""


class Budget:
    """Costs by the drafters whose forwards a tick contains, since those run in the same evaluation."""

    def __init__(self, tables: Mapping[str, CostTable] | None = None) -> None:
        """`tables`: by `company` of drafters; the empty one is the target alone."""
        self.tables: dict[str, CostTable] = {"": CostTable(), **(tables or {})}
        for company, table in self.tables.items():
            table.base = self._alone if company else None
        self._allowance = Allowance()
        self._kept: dict[str, tuple[float, float]] = {}
        """Accepted proposals and promised ones, decayed, by company."""
        self.ticks: dict[int, int] = {}
        """Ticks since the start by width."""
        self.declined = 0
        self.profiles: dict[str, Profile] = {}
        """What is known of drafters beside their costs, by company."""

    def observe(self, company: str, rows: int, width: int, seconds: float, *, typical: bool = True) -> None:
        """A tick took so long. What one that is not `typical` took counts only where nothing else is known."""
        if typical or not self.cost(company, rows, width):
            self.tables.setdefault(company, CostTable(base=self._alone)).observe(rows, width, seconds)
        self.ticks[width] = self.ticks.get(width, 0) + 1

    def cost(self, company: str, rows: int, width: int) -> float:
        """Seconds of a tick; that of the target alone while a company was never measured, 0.0 if nothing was."""
        own = self.tables.get(company if width > 1 else "")
        table = own if own is not None and own.cells else self._alone
        return table.cost(rows, width)

    def judge(self, company: str, promised: float, accepted: int) -> None:
        """A drafted tick ended: so many proposals were expected to be accepted, and so many were."""
        kept, said = self._kept.get(company, (0.0, 0.0))
        self._kept[company] = (kept * MEMORY + accepted, said * MEMORY + promised)

    def trust(self, company: str) -> float:
        """Accepted proposals for each that these drafters promise, at most 1."""
        kept, said = self._kept.get(company, (0.0, 0.0))
        return min((kept + DOUBT) / (said + DOUBT), 1.0)

    @property
    def _alone(self) -> CostTable:
        return self.tables[""]

    def choose(self, rows: int, offers: Sequence[Offer], widths: Sequence[int], company: str = "") -> Choice:
        """The width for a tick of `rows` rows, of which some offer to draft; `widths` are those that are allowed.

        While the plain cost is not known, the widest is taken: it is about to be measured. While the drafters'
        profile has too few rounds, they are measured at the width that promises most, whatever that is.
        """
        best = self._most_promising(rows, offers, widths, company)
        if best.gain <= _margin(offers) and not self._unknown(company) and self.cost("", rows, 1):
            best = Choice(1, 1.0)
        self.declined += best.width == 1
        return best

    def pays_alone(self, offer: Offer, widths: Sequence[int], company: str) -> bool:
        """True if a row would draft if it were the only one."""
        return self._most_promising(1, [offer], widths, company).gain > MARGIN

    def _most_promising(self, rows: int, offers: Sequence[Offer], widths: Sequence[int], company: str) -> Choice:
        if not self.cost("", rows, 1) or not widths:
            return Choice(max(widths, default=1), 1.0)
        gains = self._gains(company, rows, [offer.reach for offer in offers], max(widths), self.trust(company))
        return max((Choice(width, gains[width - 2]) for width in widths), key=lambda it: it.gain)

    def _gains(
        self, company: str, rows: int, reaches: Sequence[Sequence[float]], most: int, trust: float = 1.0
    ) -> list[float]:
        """What the widths 2, 3 … `most` promise. `trust`: accepted proposals for each that is expected."""
        plain, accepted = self.cost("", rows, 1), 0.0
        gains: list[float] = []
        for width in range(2, most + 1):
            accepted += trust * sum(reach[width - 2] for reach in reaches if len(reach) > width - 2)
            cost = self.cost(company, rows, width)
            gains.append((rows + accepted) / rows * plain / cost if cost else 0.0)
        return gains

    def _unknown(self, company: str) -> bool:
        """True while a drafter's profile has too few rounds to decline it by."""
        profile = self.profiles.get(company)
        return profile is not None and sum(profile.acceptance.tested[:1]) < ENOUGH

    def may_probe(self, company: str, rows: int, width: int) -> bool:
        """True if drafters that do not pay may be tried again: the time since their last trial bears the cost."""
        return self._allowance.take(company, self.cost(company, rows, width) - self.cost("", rows, 1))

    def probed(self, company: str, rows: int, width: int, seconds: float) -> None:
        """Such a trial took so long: what it overran is owed before the next one."""
        most = DEAREST * self.cost("", rows, 1)
        self._allowance.owe(company, min(seconds, most) - self.cost(company, rows, width))

    def waited(self, company: str, seconds: float) -> None:
        """Plain time went by in which these drafters were parked."""
        self._allowance.grow(company, seconds)
        kept, said = self._kept.get(company, (0.0, 0.0))
        self._kept[company] = (kept * FORGIVING, said * FORGIVING)

    def adopt(self, company: str, acceptance: Acceptance, most: int) -> None:
        """A drafter's own account of its acceptance, which goes on from what earlier runs have learned."""
        known = self.profiles.get(company, Profile(acceptance))
        acceptance.right, acceptance.tested = known.acceptance.right, known.acceptance.tested
        self.profiles[company] = Profile(acceptance, most, known.requests)

    def profiled(self, company: str) -> bool:
        """A request ended that could have drafted. True once, when the profile is complete."""
        profile = self.profiles.get(company)
        if profile is None:
            return False
        profile.requests += 1
        return profile.requests == PROFILE

    def verdict(self, company: str) -> DraftVerdict:
        """What one row alone gains, by what is known now: the same arithmetic as `choose`."""
        profile = self.profiles[company]
        reach = profile.acceptance.reach(profile.most)
        gains = self._gains(company, 1, [reach], profile.most + 1)
        choices = (Choice(width, gain) for width, gain in enumerate(gains, start=2))
        best = max(choices, key=lambda it: (it.gain, it.width), default=Choice(1, 0.0))
        standing = Standing.KEPT if best.gain > MARGIN else Standing.DECLINED
        if profile.requests < PROFILE:
            standing = Standing.PROFILING
        return DraftVerdict(company, standing, best.gain, best.width, profile.requests, tuple(reach))

    def view(self) -> BudgetView:
        """A copy for `/props` and `/metrics`; may be asked for from another thread."""
        costs = (
            TickCost(company or "target", rows, width, cell.seconds)
            for company, table in sorted(dict(self.tables).items())
            for (rows, width), cell in sorted(dict(table.cells).items())
        )
        verdicts = tuple(self.verdict(company) for company in sorted(self.profiles))
        return BudgetView(tuple(costs), tuple(sorted(dict(self.ticks).items())), self.declined, verdicts)


def _margin(offers: Sequence[Offer]) -> float:
    """What the best width must promise."""
    new = sum(offer.new for offer in offers)
    return MARGIN + (EAGER - MARGIN) * new / len(offers) if offers else MARGIN
