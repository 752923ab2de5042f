"""The budget: how wide a tick may be. Measured cost against expected yield, so that drafting never costs.

Rules of this file
1. `cost(rows, width)` of a tick, in seconds, is measured by every tick (`costs.py`).
2. A session says what it expects to be accepted, by depth (`Acceptance`); what became of such promises
   scales the next ones.
3. The tick's width is the one with the most expected tokens per second, the drafters' forwards
   included. Width 1 is a plain tick.
4. A drafter that does not pay is tried again now and then, within `PROBE_SHARE` of the time.
5. What is known of a drafter (`Profile`) is remembered for the pair and the machine; one that nothing is
   known of yet is measured by a few rounds before it can be declined.

Host arithmetic only: no array, no clock. spec/architecture.md section 5.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stoker.core.info import BudgetView, DraftVerdict, Standing, TickCost
from stoker.rounds.costs import CostTable

MARGIN = 1.03
"""A wider tick must promise this much more than a plain one."""
PROBE_SHARE = 0.02
DECAY = 0.95
"""Of an acceptance's evidence, at every round."""
PRIOR_WEIGHT = 1.5
"""Tests that the prior counts for."""
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
GENERAL_WEIGHT = 4.0
"""Tests that what is known of other requests counts for."""


@dataclass(slots=True)
class Acceptance:
    """How likely a proposal of each depth is right, given that the ones before it are: decayed counts."""

    prior: float = 0.6
    right: list[float] = field(default_factory=list[float])
    tested: list[float] = field(default_factory=list[float])
    general: "Acceptance | None" = None
    """What is known of other requests: the prior of every depth, in the place of `prior`."""

    def observe(self, tested: int, accepted: int) -> None:
        """A round, or a shadow look-up, that tested so many proposals in order."""
        if self.general is not None:
            self.general.observe(tested, accepted)
        while len(self.tested) < tested:
            self.tested.append(0.0)
            self.right.append(0.0)
        for i in range(tested):
            self.tested[i] = self.tested[i] * DECAY + 1.0
            self.right[i] = self.right[i] * DECAY + float(i < accepted)

    def reach(self, depth: int) -> list[float]:
        """The probability that proposals 1 … depth are accepted, cumulative."""
        return list(accumulate(self.steps(depth), operator.mul))

    def steps(self, depth: int) -> list[float]:
        """For each depth, the probability that its proposal is right if the ones before it are."""
        weight, priors = PRIOR_WEIGHT, [self.prior] * depth
        if self.general is not None:
            weight, priors = GENERAL_WEIGHT, self.general.steps(depth)
        pooled = (sum(self.right) + weight * (sum(priors) / depth if depth else 0.0)) / (sum(self.tested) + weight)
        steps: list[float] = []
        for i in range(depth):
            right, tested = (self.right[i], self.tested[i]) if i < len(self.tested) else (0.0, 0.0)
            prior = pooled if self.general is None else priors[i]
            steps.append((right + weight * prior) / (tested + weight))
        return steps


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
        self._waited: dict[str, float] = {}
        self._kept: dict[str, tuple[float, float]] = {}
        """Accepted proposals and promised ones, decayed, by company."""
        self.ticks: dict[int, int] = {}
        """Ticks since the start by width."""
        self.declined = 0
        self.profiles: dict[str, Profile] = {}
        """What is known of drafters beside their costs, by company."""

    def observe(self, company: str, rows: int, width: int, seconds: float) -> None:
        """A tick took so long."""
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
        if best.gain <= MARGIN and not self._unknown(company) and self.cost("", rows, 1):
            best = Choice(1, 1.0)
        self.declined += best.width == 1
        return best

    def pays_alone(self, offer: Offer, widths: Sequence[int], company: str) -> bool:
        """True if a row would draft if it were the only one."""
        return self._most_promising(1, [offer], widths, company).gain > MARGIN

    def _most_promising(self, rows: int, offers: Sequence[Offer], widths: Sequence[int], company: str) -> Choice:
        if not self.cost("", rows, 1) or not widths:
            return Choice(max(widths, default=1), 1.0)
        trust = self.trust(company)
        return max((self._gain(company, rows, width, offers, trust) for width in widths), key=lambda it: it.gain)

    def _gain(self, company: str, rows: int, width: int, offers: Sequence[Offer], trust: float = 1.0) -> Choice:
        """What a width promises. `trust`: accepted proposals for each that is expected."""
        plain, cost = self.cost("", rows, 1), self.cost(company, rows, width)
        tokens = rows + trust * sum(sum(offer.reach[: width - 1]) for offer in offers)
        return Choice(width, tokens / rows * plain / cost if cost else 0.0)

    def _unknown(self, company: str) -> bool:
        """True while a drafter's profile has too few rounds to decline it by."""
        profile = self.profiles.get(company)
        return profile is not None and sum(profile.acceptance.tested[:1]) < ENOUGH

    def may_probe(self, company: str, rows: int, width: int) -> bool:
        """True if drafters that do not pay may be tried again: the time since their last trial bears the cost."""
        extra = self.cost(company, rows, width) - self.cost("", rows, 1)
        if self._waited.get(company, 0.0) * PROBE_SHARE < max(extra, 0.0):
            return False
        self._waited[company] = 0.0
        return True

    def waited(self, company: str, seconds: float) -> None:
        """Plain time went by in which these drafters were parked."""
        self._waited[company] = self._waited.get(company, 0.0) + seconds
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
        choices = (self._gain(company, 1, width, [Offer(reach)]) for width in range(2, profile.most + 2))
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
