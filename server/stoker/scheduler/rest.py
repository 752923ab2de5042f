"""Rest: an idle scheduler waits, and after a while the model is given up until there is work again."""

import asyncio
import logging
from collections.abc import Callable

from stoker.core.work import Sleeper
from stoker.scheduler.device import Runner

log = logging.getLogger("stoker.requests")


class Rest:
    """`after`: idle seconds until sleep, negative for never; `forget` is called when everything held is lost."""

    def __init__(self, sleeper: Sleeper | None, runner: Runner, after: float, forget: Callable[[], None]) -> None:
        self._sleeper, self._runner, self._after, self._forget = sleeper, runner, after, forget
        self.sleeping = False
        self._roused, self._ended = False, False
        self._awake = asyncio.Event()

    async def rouse(self, wakeup: asyncio.Event) -> None:
        """Has the waiting scheduler bring the model back; returns when that is done, at once where it is there."""
        if self.sleeping and not self._ended:
            self._roused = True
            wakeup.set()
            await self._awake.wait()

    def end(self) -> None:
        """Nobody will wake any more: whoever waits for that need not."""
        self._ended = True
        self._awake.set()

    async def wait(self, wakeup: asyncio.Event) -> None:
        """Waits for something to do; gives the model up if that takes long, and takes it back if somebody asks."""
        if self._roused:
            await self.wake()
            return
        if self._sleeper is None or self._after < 0 or self.sleeping:
            await wakeup.wait()
            return
        try:
            await asyncio.wait_for(wakeup.wait(), self._after)
        except TimeoutError:
            await self._runner.run(self._sleeper.sleep)
            self.sleeping = True
            self._awake.clear()
            self._forget()
            log.info("sleeping: the model is freed until the next request")

    async def wake(self) -> None:
        if not self.sleeping or self._sleeper is None:
            return
        ran = await self._runner.run(self._sleeper.wake)
        self.sleeping = self._roused = False
        self._awake.set()
        log.info("awake: the model was loaded again in %.1f s", ran.ended - ran.started)
