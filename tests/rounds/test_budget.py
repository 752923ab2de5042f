"""The budget as arithmetic, and in the engine on a scripted clock: drafting never costs, and is found again."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import pytest

from fakes import FakeClock
from rounds.harness import GREEDY, Harness, Wanted
from rounds.oracle import Learned, Oracle, OracleSession
from rounds.table import TableTarget
from stoker.core.counters import DraftOff
from stoker.core.info import TickCost
from stoker.rounds.allowance import PROBE_SHARE
from stoker.rounds.base import Needs, Opening, Proposal
from stoker.rounds.budget import EAGER, MARGIN, NEW, Budget, Offer
from stoker.rounds.costs import Cell, CostTable
from stoker.rounds.evidence import Acceptance
from stoker.rounds.speculator import Speculation as How

SMOLLM2 = {(1, 1): 0.054, (1, 8): 0.076, (4, 1): 0.077, (4, 8): 0.136}
"""Seconds measured on 2 CPU cores (spec/scheduler.md, prototypes)."""


def table(cells: dict[tuple[int, int], float] | None = None) -> CostTable:
    known = SMOLLM2 if cells is None else cells
    return CostTable({shape: Cell(seconds, 50) for shape, seconds in known.items()})


def test_the_width_with_the_most_tokens_a_second_is_chosen() -> None:
    budget = Budget({"": table()})
    certain, hopeless = Offer([0.95**i for i in range(1, 8)]), Offer([0.05**i for i in range(1, 8)])
    widths = range(2, 9)
    assert budget.choose(1, [certain], widths).width == 8
    assert budget.choose(1, [hopeless], widths).width == 1
    assert 1 < budget.choose(1, [Offer([0.6**i for i in range(1, 8)])], widths).width < 8


def test_one_drafting_row_must_pay_for_the_padding_of_the_others() -> None:
    budget = Budget({"": table()})
    offer = Offer([0.7, 0.4, 0.2])
    assert budget.choose(1, [offer], [2, 3, 4]).width > 1
    assert budget.choose(16, [offer], [2, 3, 4]).width == 1


def test_a_gain_within_the_margin_is_not_worth_it() -> None:
    cells = {(1, 1): 1.0, (1, 2): 1.5}
    assert Budget({"": table(cells)}).choose(1, [Offer([0.5 * MARGIN - 0.02])], [2]).width == 1
    assert Budget({"": table(cells)}).choose(1, [Offer([0.6])], [2]).width == 2


def test_a_drafters_own_forwards_are_part_of_its_ticks() -> None:
    offer = Offer([0.9, 0.8, 0.7])
    budget = Budget({"": table(), "draft-model": table({(1, 2): 0.15, (1, 3): 0.2, (1, 4): 0.25})})
    assert budget.choose(1, [offer], [2, 3, 4]).width == 4
    assert budget.choose(1, [offer], [2, 3, 4], "draft-model").width == 1


def test_without_any_measurement_the_widest_offer_is_taken_and_measured() -> None:
    assert Budget().choose(1, [Offer([0.1, 0.1])], [2, 3]).width == 3
    assert Budget().choose(1, [], []).width == 1


def test_trials_of_a_parked_drafter_take_a_bounded_share_of_the_time() -> None:
    budget = Budget({"": table({(1, 1): 1.0, (1, 2): 1.5})})
    trials = 0
    for _ in range(1000):
        if budget.may_probe("", 1, 2):
            trials += 1
        budget.waited("", 1.0)
    assert 0 < trials * 0.5 <= 1000 * PROBE_SHARE


def test_promises_count_for_less_once_they_were_broken_and_for_more_with_time() -> None:
    budget, offer = Budget({"": table()}), Offer([0.9, 0.8, 0.7])
    assert budget.choose(1, [offer], [2, 3, 4]).width == 4
    for _ in range(100):
        budget.judge("", 2.4, 0)
    assert budget.choose(1, [offer], [2, 3, 4]).width == 1
    for _ in range(1000):
        budget.waited("", 0.05)
    assert budget.choose(1, [offer], [2, 3, 4]).width == 4


def test_more_than_was_promised_is_not_held_against_anybody() -> None:
    budget = Budget({"": table()})
    budget.judge("", 1.0, 7)
    assert budget.trust("") == 1.0


def test_it_tells_what_it_knows() -> None:
    budget = Budget({"": table({(1, 1): 0.05}), "mtp": table({(1, 2): 0.1})})
    budget.observe("", 1, 1, 0.05)
    budget.choose(1, [Offer([0.1])], [2], "mtp")
    view = budget.view()
    assert view.costs == (TickCost("target", 1, 1, 0.05), TickCost("mtp", 1, 2, 0.1))
    assert view.ticks == ((1, 1),)
    assert view.declined == 1


# in the engine

VOCAB = 64
CYCLE = mx.array([[30.0 * (b == (a + 1) % VOCAB) for b in range(VOCAB)] for a in range(VOCAB)], mx.float32)


@dataclass
class LateOracle(Oracle):
    """Wrong until `pays_from` tokens are out."""

    pays_from: int = 0
    forwards: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(forwards=self.forwards)

    def open(self, opening: Opening) -> Learned:
        session = super().open(opening)
        learned = Learned(session.prompt, session.truth, session.rng, session.most)
        self.sessions[-1] = learned
        return learned

    def _draft(self, session: OracleSession, limit: int) -> Proposal:
        self.error = 0.0 if len(session.emitted) >= self.pays_from else 1.0
        return super()._draft(session, limit)


def seconds_for(
    rows: int, count: int, pays_from: int | None, cost: Callable[[int, int], float]
) -> tuple[float, float, Harness]:
    """Scripted time of a plain and of a drafted run of the same rows, and the drafted harness."""
    spent: list[float] = []
    harness: Harness | None = None
    for drafted in (False, True):
        clock = FakeClock()
        target = TableTarget(CYCLE, rows, 1024)
        target.evaluated = lambda r, w, c=clock: c.pass_by(cost(r, w))
        wanted = [Wanted((n, n + 1), count, GREEDY) for n in range(rows)]
        truth = {want.prompt: [(want.prompt[-1] + 1 + k) % VOCAB for k in range(count)] for want in wanted}
        drafter = LateOracle(truth, vocab=VOCAB, full=True, pays_from=pays_from or 0)
        how = How({drafter.kind: drafter}, drafter.kind, budget=Budget({"": table()})) if drafted else None
        harness = Harness(target, how, clock=clock)
        begun = clock()
        assert harness.run(wanted) == {n: truth[want.prompt] for n, want in enumerate(wanted)}
        spent.append(clock() - begun)
    assert harness is not None
    return spent[0], spent[1], harness


def smollm2(rows: int, width: int) -> float:
    return table().cost(rows, width)


@pytest.mark.mlx
@pytest.mark.parametrize("rows", [1, 8])
def test_a_drafter_that_is_never_right_costs_at_most_three_percent(rows: int) -> None:
    plain, drafted, harness = seconds_for(rows, 256, 10**9, smollm2)
    assert plain / drafted >= 0.97
    assert harness.outcomes[-1].off is DraftOff.DOES_NOT_PAY


@pytest.mark.mlx
@pytest.mark.parametrize("rows", [1, 4])
def test_a_drafter_that_is_always_right_is_used_at_full_width(rows: int) -> None:
    plain, drafted, harness = seconds_for(rows, 256, 0, smollm2)
    assert plain / drafted > 3
    assert harness.outcomes[-1].off is None


@pytest.mark.mlx
def test_a_drafter_that_begins_to_pay_after_a_hundred_tokens_is_found_again() -> None:
    plain, drafted, harness = seconds_for(1, 600, 100, smollm2)
    assert plain / drafted > 1.5
    assert harness.counters[0].accepted > 200


def test_rows_that_are_new_may_draft_a_little_below_what_pays_and_others_may_not() -> None:
    budget = Budget({"": table({(1, 1): 1.0, (1, 2): 1.5, (2, 1): 1.0, (2, 2): 1.5})})

    def width(gain: float, *new: bool) -> int:
        offers = [Offer([1.5 * gain - 1.0], it) for it in new]
        return budget.choose(len(new), offers, [2]).width

    assert [width(EAGER + 0.02, new) for new in (True, False)] == [2, 1]
    assert width(EAGER - 0.02, True) == 1
    assert width(EAGER + 0.02, True, False) == 1, "the others' margin counts too"
    assert width(MARGIN - 0.02, True, False) == 2


def test_a_request_that_others_speak_against_finds_out_for_itself() -> None:
    """A drafter that is right half the time elsewhere, and nearly always here."""
    general = Acceptance()
    for _ in range(100):
        general.observe(1, 0)
        general.observe(2, 1)
    own = Acceptance(general=general)
    budget = Budget({"": table({(1, 1): 1.0, (1, 2): 1.55, (1, 4): 1.9})})
    assert budget.choose(1, [Offer(own.reach(3))], [2, 4]).width == 1
    widths = []
    for drafted in range(NEW):
        widths.append(budget.choose(1, [Offer(own.reach(3), drafted < NEW)], [2, 4]).width)
        own.observe(widths[-1] - 1, widths[-1] - 1)
    assert min(widths) > 1
    assert budget.choose(1, [Offer(own.reach(3))], [2, 4]).width > 1
