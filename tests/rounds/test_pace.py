"""Pace on a scripted clock: what a tick is told to the budget, and that a parked drafter builds nothing in vain."""

import mlx.core as mx
import pytest

from fakes import FakeClock
from rounds.harness import GREEDY, Harness, Wanted
from rounds.oracle import Learned, Oracle
from rounds.table import TableTarget
from stoker.rounds.base import Opening
from stoker.rounds.budget import Budget
from stoker.rounds.costs import Cell, CostTable
from stoker.rounds.pace import CHECK, CHECKED, REMEMBER
from stoker.rounds.speculator import Speculation

pytestmark = pytest.mark.mlx
VOCAB = 16
CYCLE = mx.array([[30.0 * (b == (a + 1) % VOCAB) for b in range(VOCAB)] for a in range(VOCAB)], mx.float32)
PLAIN = {(1, 1): 1.0, (1, 2): 1.6, (1, 4): 1.9, (1, 8): 2.4}


class Pupil(Oracle):
    def open(self, opening: Opening) -> Learned:
        session = super().open(opening)
        return Learned(session.prompt, session.truth, session.rng, session.most)


class Counted(TableTarget):
    """Counts every forward that is built, those that are revoked too."""

    built = 0
    early = 0

    def verify(self, slots, ids, capture=(), *, revocable=False):
        self.built += 1
        self.early += revocable
        return super().verify(slots, ids, capture, revocable=revocable)


def cost(rows: int, width: int) -> float:
    return PLAIN.get((rows, width), 1.0 + 0.2 * width)


def play(
    error: float, count: int, first: float = 1.0, believed: dict[tuple[int, int], float] = PLAIN
) -> tuple[Harness, Counted, Budget, list[Budget]]:
    """`first`: how many times as long the first forward of a shape takes. `believed`: costs as the budget has them."""
    clock, target = FakeClock(), Counted(CYCLE, 1, 16384)
    seen: set[tuple[int, int]] = set()

    def evaluated(rows: int, width: int) -> None:
        clock.pass_by(cost(rows, width) * (1.0 if (rows, width) in seen else first))
        seen.add((rows, width))

    target.evaluated = evaluated
    budget = Budget({"": CostTable({shape: Cell(seconds, 50) for shape, seconds in believed.items()})})
    written: list[Budget] = []
    truth = {(0, 1): [(2 + k) % VOCAB for k in range(count)]}
    drafter = Pupil(truth, vocab=VOCAB, full=True, error=error)
    how = Speculation({drafter.kind: drafter}, drafter.kind, budget=budget, remember=written.append)
    harness = Harness(target, how, clock=clock)
    harness.run([Wanted((0, 1), count, GREEDY, leave_at=2 * count)], ticks=2 * count + 10)
    return harness, target, budget, written


def test_a_tick_is_booked_under_its_own_width() -> None:
    harness, _, budget, _ = play(error=0.0, count=64)
    assert sum(budget.ticks.values()) == len([it for it in harness.outcomes if it.tokens])
    assert max(budget.ticks) > 1


def test_what_the_first_tick_of_a_shape_takes_is_no_measurement() -> None:
    """On CUDA it also makes kernels and plans: a width would be dear for ever because it was new once."""
    usual, slow = (play(error=0.0, count=40, first=first)[2] for first in (1.0, 20.0))
    assert usual.ticks == slow.ticks
    assert max(usual.ticks) > 1
    assert [usual.cost("", 1, width) for width in usual.ticks] == [slow.cost("", 1, width) for width in slow.ticks]


def test_promises_that_come_true_are_trusted_and_broken_ones_are_not() -> None:
    assert play(error=0.0, count=64)[2].trust("") == 1.0
    assert play(error=1.0, count=64)[2].trust("") < 1.0


def test_a_drafter_that_is_parked_has_no_round_built_in_vain() -> None:
    _, target, budget, _ = play(error=1.0, count=300)
    ticks = sum(budget.ticks.values())
    assert budget.ticks[1] > 0.9 * ticks
    assert target.built < 1.15 * ticks


def test_rounds_in_which_all_drafters_are_parked_are_built_early_but_for_those_behind_a_trial() -> None:
    harness, target, budget, _ = play(error=1.0, count=300)
    late = target.built - target.early
    drafted = sum(count for width, count in budget.ticks.items() if width > 1)
    assert late < 3 * drafted + 5
    assert target.early > 0.85 * sum(budget.ticks.values())
    assert harness.outcomes


def test_a_plain_tick_that_was_thought_dear_is_measured_again_while_drafting_seems_to_pay() -> None:
    """A table from a busy machine: drafting would seem to pay for ever, since only plain ticks can tell."""
    wrong = PLAIN | {(1, 1): 3.0}
    budget = play(error=0.8, count=6000, believed=wrong)[2]
    assert budget.cost("", 1, 1) < 1.6
    assert budget.ticks[1] > 0.5 * sum(budget.ticks.values())


def test_drafting_that_pays_is_interrupted_for_a_check_seldom() -> None:
    budget = play(error=0.0, count=9000)[2]
    drafted = sum(count for width, count in budget.ticks.items() if width > 1)
    checks = drafted // CHECK
    assert checks >= 4
    assert checks <= budget.ticks[1] <= CHECKED * (checks + 1) + 1


def test_the_budget_is_written_down_now_and_then() -> None:
    assert len(play(error=1.0, count=REMEMBER + 50)[3]) == 1
