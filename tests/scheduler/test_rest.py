"""Rest on its own; through the scheduler in test_sleep.py."""

import asyncio
import time
from dataclasses import dataclass, field

from fakes import Inline
from stoker.scheduler.rest import Rest


@dataclass
class Naps:
    said: list[str] = field(default_factory=list[str])

    def sleep(self) -> None:
        self.said.append("sleep")

    def wake(self) -> None:
        self.said.append("wake")

    def forget(self) -> None:
        self.said.append("forget")

    def rest(self, after: float) -> Rest:
        return Rest(self, Inline(time.monotonic), after, self.forget)


async def test_work_that_comes_in_time_keeps_the_model() -> None:
    naps, wakeup = Naps(), asyncio.Event()
    rest = naps.rest(5.0)
    wakeup.set()
    await rest.wait(wakeup)
    assert (naps.said, rest.sleeping) == ([], False)


async def test_a_long_wait_gives_it_up_and_forgets_what_was_held() -> None:
    naps = Naps()
    rest = naps.rest(0.0)
    await rest.wait(asyncio.Event())
    assert (naps.said, rest.sleeping) == (["sleep", "forget"], True)
    await rest.wake()
    assert (naps.said[2:], rest.sleeping) == (["wake"], False)
    await rest.wake()
    assert naps.said[3:] == [], "who is awake is not woken"


async def test_somebody_may_rouse_a_sleeper_without_giving_it_work() -> None:
    naps, wakeup = Naps(), asyncio.Event()
    rest = naps.rest(0.0)
    await rest.wait(wakeup)
    roused = asyncio.create_task(rest.rouse(wakeup))
    await wakeup.wait()
    await rest.wait(wakeup)
    await asyncio.wait_for(roused, 1)
    assert not rest.sleeping
    await asyncio.wait_for(rest.rouse(wakeup), 1)


async def test_whoever_waits_for_a_sleeper_that_never_wakes_is_let_go() -> None:
    naps, wakeup = Naps(), asyncio.Event()
    rest = naps.rest(0.0)
    await rest.wait(wakeup)
    roused = asyncio.create_task(rest.rouse(wakeup))
    await asyncio.sleep(0)
    rest.end()
    await asyncio.wait_for(roused, 1)
    assert rest.sleeping


async def test_a_negative_time_never_sleeps() -> None:
    naps, wakeup = Naps(), asyncio.Event()
    waiting = asyncio.create_task(naps.rest(-1.0).wait(wakeup))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    wakeup.set()
    await waiting
    assert naps.said == []
