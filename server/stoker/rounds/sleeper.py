"""An engine that can be given up, with its model and everything that its slots hold, and built again."""

import gc
from collections.abc import Callable

import mlx.core as mx

from stoker.core.work import Outcome, Plan, Ticker
from stoker.models.memory import give_back


class SleepingEngine:
    """Implements `core.work.Ticker` and `core.work.Sleeper`. Every method must be called on the device thread."""

    def __init__(self, engine: Ticker, build: Callable[[], Ticker]) -> None:
        self._engine: Ticker | None = engine
        self._build = build

    def tick(self, plan: Plan) -> list[Outcome]:
        if self._engine is None:
            raise RuntimeError("the model is not loaded")
        return self._engine.tick(plan)

    def sleep(self) -> None:
        self._engine = None
        gc.collect()  # a target and the taps in its model hold each other
        mx.clear_cache()
        give_back()

    def wake(self) -> None:
        """Raises what building raises: the model's file may be gone."""
        self._engine = self._build()
