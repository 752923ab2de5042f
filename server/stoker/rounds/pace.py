"""Pace: how wide a tick is, by what the budget knows; and what a tick took and brought, for the budget to learn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.core.clock import Clock
from stoker.core.counters import DraftOff, Kind
from stoker.rounds.base import Drafter, Proposal
from stoker.rounds.budget import NEW, Budget, Offer
from stoker.rounds.row import Row

REMEMBER = 500
"""Rounds between two times that the budget is written down."""
CHECK = 200
"""Drafted rounds after which some plain ones are made, so that what they cost now is known."""
CHECKED = 4
"""Plain rounds of such a check: the first is built late, as one behind a drafted round is, and no measure."""


@dataclass(frozen=True, slots=True)
class Flown:
    """A round that has landed."""

    width: int
    accepted: int
    """Proposals that were right."""
    steady: bool
    """False of a plain round that was built late though plain decoding would have built it early: no measure of it."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What the next round is to be."""

    width: int
    """Columns; 1: nobody drafts."""
    asking: Sequence[Row]
    limits: Mapping[int, int]
    """Proposals that a row may have, by id."""
    reach: Mapping[int, Sequence[float]]
    """The probability that a row gets so far, for each proposal that it may make, by id."""


class Pace:
    def __init__(
        self,
        drafters: Mapping[Kind, Drafter],
        widest: Callable[[int], int],
        budget: Budget | None,
        remember: Callable[[Budget], None],
        clock: Clock,
    ) -> None:
        """`widest`, `budget`, `remember`: see `Speculation`."""
        self._drafters, self._widest = drafters, widest
        self._budget, self._remember = budget, remember
        self._clock = clock
        self._started = clock()
        self._rounds = 0
        self._shapes: set[tuple[str, int, int]] = set()
        """Of the ticks that this process has made: drafters, rows, width. The first of each also makes kernels and
        plans (some 100 ms on CUDA), so it is no measure. A trial also reads what waited for its drafter: it is one
        only if it was cheap all the same."""
        self._unchecked = 0
        """Drafted rounds since plain ones were last made for the sake of knowing."""
        self._promised = 0.0
        """Proposals of the round in flight that are expected to be accepted."""

    def decide(self, rows: Sequence[Row], limits: Mapping[int, int]) -> Intent:
        """Whether the next round drafts, and how wide. Host only. `limits`: proposals that a row may have, by id."""
        asking = [row for row in rows if limits[row.id] > 0 and row.drafting.wants_round]
        reach = {row.id: session.reach(limits[row.id]) for row in asking if (session := row.drafting.session)}
        return Intent(self._width(len(rows), asking, reach), asking, limits, reach)

    def promised(self, intent: Intent, rows: Sequence[Row], proposals: Sequence[Proposal]) -> None:
        """The next round verifies these."""
        pairs = zip(rows, proposals, strict=True)
        self._promised = sum(sum(intent.reach[row.id][: len(it)]) for row, it in pairs if it)

    def launched(self) -> None:
        """A round is about to be built and started."""
        self._started = self._clock()

    def landed(self, rows: Sequence[Row], drafted: Sequence[Row], flown: Flown) -> None:
        """The round that was launched last, of all these rows, has been read."""
        budget, seconds = self._budget, self._clock() - self._started
        if budget is None:
            return
        company = self._company(drafted) if drafted else ""
        shape = (company, len(rows), flown.width)
        trial = any(row.drafting.parked for row in drafted)
        usual = (not trial or seconds < budget.cost(*shape)) if drafted else flown.steady
        budget.observe(*shape, seconds, typical=usual and shape in self._shapes)
        self._shapes.add(shape)
        if trial:
            budget.probed(*shape, seconds)
        if drafted:
            budget.judge(company, self._promised, flown.accepted)
        for row in drafted:
            row.drafting.rounds += 1
        self._count(bool(drafted), flown.steady)
        self._rounds += 1
        if self._rounds % REMEMBER == 0:
            self._remember(budget)
        parked = [row for row in rows if row.drafting.parked]
        if parked:
            budget.waited(self._company(parked), seconds)

    def _count(self, drafted: bool, steady: bool) -> None:
        """For the next check: a plain round that was built early, in its own time, is one."""
        if drafted:
            self._unchecked += 1
        elif steady and self._unchecked < CHECK:
            self._unchecked = 0

    def ended(self, row: Row) -> None:
        """A request that could have drafted ends: the last one of a drafter's profile settles its verdict."""
        budget = self._budget
        if budget is not None and row.drafting.asked and budget.profiled(self._company([row])):
            self._remember(budget)

    def _company(self, rows: Sequence[Row]) -> str:
        """The drafters whose forwards a tick of these rows contains, by name."""
        kinds = {row.drafting.kind for row in rows if row.drafting.session is not None and row.drafting.kind}
        return "+".join(sorted(kind for kind in kinds if self._drafters[kind].needs.forwards))

    def _width(self, rows: int, asking: Sequence[Row], reach: Mapping[int, Sequence[float]]) -> int:
        budget = self._budget
        if not asking:
            return 1
        offers = [Offer(reach[row.id], row.drafting.rounds < NEW) for row in asking]
        most = self._widest(1 + max(len(offer.reach) for offer in offers))
        if budget is None or most <= 1:
            return most
        if self._unchecked >= CHECK:
            return self._check(asking)
        widths = sorted({self._widest(width) for width in range(2, most + 1)} - {1})
        company = self._company(asking)
        chosen = budget.choose(rows, offers, widths, company).width
        trial = chosen == 1 and budget.may_probe(company, rows, widths[0])
        for row, offer in zip(asking, offers, strict=True):
            # With each trial there is new evidence; between two of them the reason stays.
            known = row.drafting.parked if rows > 1 and not trial else None
            row.drafting.asked = True
            row.drafting.parked = None if chosen > 1 else known or _why(budget, rows, offer, widths, company)
            row.drafting.calm = row.drafting.parked is not None
        return widths[0] if trial else chosen

    def _check(self, asking: Sequence[Row]) -> int:
        """A plain round in the midst of drafted ones."""
        self._unchecked = self._unchecked + 1 if self._unchecked + 1 < CHECK + CHECKED else 0
        for row in asking:
            row.drafting.calm = True
        return 1


def _why(budget: Budget, rows: int, offer: Offer, widths: Sequence[int], company: str) -> DraftOff:
    """Why a row whose drafting does not pay among so many does not draft: would it pay alone?"""
    alone = rows > 1 and budget.pays_alone(offer, widths, company)
    return DraftOff.BATCH if alone else DraftOff.DOES_NOT_PAY
