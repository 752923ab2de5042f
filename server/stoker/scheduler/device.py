"""The device thread: everything that touches an array runs on it, one call at a time.

MLX 0.32 binds arrays that are built lazily to the thread that built them, so loading, ticks and
freeing share this one thread (architecture, "Threads").
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="device")

    async def run(self, call: Callable[[], T]) -> Ran[T]:
        """Runs `call` on the device thread; its exceptions come back here."""

        def timed() -> Ran[T]:
            started = clock.now()
            result = call()
            return Ran(result, started, clock.now())

        return await asyncio.get_running_loop().run_in_executor(self._pool, timed)

    def close(self) -> None:
        """Waits for the call in flight and ends the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)
