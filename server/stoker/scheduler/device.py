"""The device thread: everything that touches an array runs on it, one call at a time.

MLX 0.32 binds arrays that are built lazily to the thread that built them, so loading, ticks and
freeing share this one thread (architecture, "Threads").

The thread is never ended, only left idle. MLX keeps Python objects (its compiled functions) in storage
of the thread, and frees them, with the interpreter's lock, when the operating system ends the thread.
Before Python 3.13 a join returns earlier than that, so an interpreter that ends right after it is met
half-closed, and the process aborts. A daemon that sleeps is not woken by the end of the process.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from stoker.core import clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ran(Generic[T]):
    """A result with the stamps of `core.clock` between which it was computed."""

    result: T
    started: float
    ended: float


class Runner(Protocol):
    """Where ticks run. Tests run them inline."""

    async def run(self, call: Callable[[], T]) -> Ran[T]: ...


class Device:
    def __init__(self) -> None:
        # An event loop brings the queue of calls, and carries their exceptions across.
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="device", daemon=True).start()

    async def run(self, call: Callable[[], T]) -> Ran[T]:
        """Runs `call` on the device thread; its exceptions come back here."""

        async def timed() -> Ran[T]:
            started = clock.now()
            result = call()
            return Ran(result, started, clock.now())

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(timed(), self._loop))

    def close(self) -> None:
        """Waits for the calls that were made."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result()
