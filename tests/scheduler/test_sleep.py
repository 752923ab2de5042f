"""A model that nobody needs is given up, and brought back for the next request."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from fakes import FakeEngine, Inline
from scheduler.test_scheduler import END, answer, collect, piece, request
from stoker.core.events import Failed
from stoker.core.work import Outcome, Plan, Traits
from stoker.scheduler.scheduler import Policy, Scheduler, Vocabulary


@dataclass
class Sleepy(FakeEngine):
    awake: bool = True
    naps: int = 0
    gone: bool = False
    """True: it cannot be brought back."""

    def tick(self, plan: Plan) -> list[Outcome]:
        assert self.awake
        return super().tick(plan)

    def sleep(self) -> None:
        self.awake, self.naps = False, self.naps + 1
        self.content.clear()
        self.kept.clear()

    def wake(self) -> None:
        if self.gone:
            raise OSError("no such file")
        self.awake = True


@asynccontextmanager
async def sleepy(engine: Sleepy, policy: Policy) -> AsyncIterator[Scheduler]:
    vocabulary = Vocabulary(piece, frozenset({END}))
    scheduler = Scheduler(engine, Inline(engine.clock), Traits(1, 64), vocabulary, policy, engine)
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        await scheduler.stop()
        await asyncio.wait_for(task, 5)


async def until_asleep(scheduler: Scheduler) -> None:
    deadline = time.monotonic() + 5
    while not scheduler.sleeping:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_an_idle_server_sleeps_once_and_wakes_for_a_request() -> None:
    engine = Sleepy()
    async with sleepy(engine, Policy(sleep_after=0.01, cache=-1)) as scheduler:
        await answer(scheduler, request(1, prompt=(1, 2, 3)))
        await answer(scheduler, request(2, prompt=(7, 8, 9)))
        await until_asleep(scheduler)
        await asyncio.sleep(0.03)
        assert (engine.naps, engine.awake) == (1, False)
        assert scheduler.slots()[0].content == 0
        assert scheduler.totals().kept.entries == 0
        end = await answer(scheduler, request(3, prompt=(1, 2, 3)))
        assert (end.tokens, end.cached_tokens) == ((4, 5, 6, 7), 0)
        await until_asleep(scheduler)
        assert engine.naps == 2


async def test_a_sleeping_server_can_be_roused_without_a_request() -> None:
    engine = Sleepy()
    async with sleepy(engine, Policy(sleep_after=0.01)) as scheduler:
        await scheduler.rouse()
        await until_asleep(scheduler)
        await asyncio.gather(scheduler.rouse(), scheduler.rouse())
        assert (engine.awake, scheduler.sleeping) == (True, False)
        await until_asleep(scheduler)
        assert engine.naps == 2


async def test_rousing_a_model_that_is_gone_does_not_hang() -> None:
    async def ask() -> None:
        async with sleepy(Sleepy(gone=True), Policy(sleep_after=0.01)) as scheduler:
            await until_asleep(scheduler)
            await scheduler.rouse()
            assert not scheduler.healthy
            await scheduler.rouse()

    with pytest.raises(OSError, match="no such file"):
        await ask()


async def test_a_server_that_shall_not_sleep_does_not() -> None:
    engine = Sleepy()
    async with sleepy(engine, Policy()) as scheduler:
        await answer(scheduler, request(1))
        await asyncio.sleep(0.03)
        assert engine.naps == 0


async def test_a_model_that_cannot_be_brought_back_ends_the_engine_and_tells_the_client() -> None:
    async def ask() -> None:
        async with sleepy(Sleepy(gone=True), Policy(sleep_after=0.01)) as scheduler:
            await until_asleep(scheduler)
            (end,) = await collect(scheduler.submit(request(1)))
            assert isinstance(end, Failed)
            assert not scheduler.healthy

    with pytest.raises(OSError, match="no such file"):
        await ask()
