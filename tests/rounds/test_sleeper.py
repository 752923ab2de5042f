"""An engine that sleeps: `tests/rounds/test_shelf.py` does it with a real one."""

import pytest

from stoker.core.work import Outcome, Plan
from stoker.rounds.sleeper import SleepingEngine

pytestmark = pytest.mark.mlx


class Ticking:
    def tick(self, plan: Plan) -> list[Outcome]:
        return [Outcome(1, 0.0)]


def test_a_sleeping_engine_refuses_ticks_and_a_woken_one_is_a_new_one() -> None:
    built: list[Ticking] = []

    def build() -> Ticking:
        built.append(Ticking())
        return built[-1]

    engine = SleepingEngine(Ticking(), build)
    assert engine.tick(Plan())
    engine.sleep()
    with pytest.raises(RuntimeError, match="not loaded"):
        engine.tick(Plan())
    engine.wake()
    assert engine.tick(Plan())
    assert len(built) == 1


def test_what_building_raises_is_raised_and_the_engine_sleeps_on() -> None:
    def gone() -> Ticking:
        raise FileNotFoundError("the model is gone")

    engine = SleepingEngine(Ticking(), gone)
    engine.sleep()
    with pytest.raises(FileNotFoundError):
        engine.wake()
    with pytest.raises(RuntimeError):
        engine.tick(Plan())
