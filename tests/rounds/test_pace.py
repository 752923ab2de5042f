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
from stoker.rounds.pace import REMEMBER
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

    def verify(self, slots, ids, capture=(), *, revocable=False):
        self.built += 1
        return super().verify(slots, ids, capture, revocable=revocable)


def cost(rows: int, width: int) -> float:
    return PLAIN.get((rows, width), 1.0 + 0.2 * width)


def play(error: float, count: int) -> tuple[Harness, Counted, Budget, list[Budget]]:
    clock, target = FakeClock(), Counted(CYCLE, 1, 1024)
    target.evaluated = lambda rows, width: clock.pass_by(cost(rows, width))
    budget = Budget({"": CostTable({shape: Cell(seconds, 50) for shape, seconds in PLAIN.items()})})
    written: list[Budget] = []
    truth = {(0, 1): [(2 + k) % VOCAB for k in range(count)]}
    drafter = Pupil(truth, vocab=VOCAB, full=True, error=error)
    how = Speculation({drafter.kind: drafter}, drafter.kind, budget=budget, remember=written.append)
    harness = Harness(target, how, clock=clock)
    harness.run([Wanted((0, 1), count, GREEDY)])
    return harness, target, budget, written


def test_a_tick_is_booked_under_its_own_width() -> None:
    harness, _, budget, _ = play(error=0.0, count=64)
    assert sum(budget.ticks.values()) == len([it for it in harness.outcomes if it.tokens])
    assert max(budget.ticks) > 1


def test_promises_that_come_true_are_trusted_and_broken_ones_are_not() -> None:
    assert play(error=0.0, count=64)[2].trust("") == 1.0
    assert play(error=1.0, count=64)[2].trust("") < 1.0


def test_a_drafter_that_is_parked_has_no_round_built_in_vain() -> None:
    _, target, budget, _ = play(error=1.0, count=300)
    ticks = sum(budget.ticks.values())
    assert budget.ticks[1] > 0.9 * ticks
    assert target.built < 1.15 * ticks


def test_the_budget_is_written_down_now_and_then() -> None:
    assert len(play(error=1.0, count=REMEMBER + 50)[3]) == 1
