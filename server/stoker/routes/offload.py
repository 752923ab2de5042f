"""Where parsing runs: long texts in a worker thread, so that they do not delay the next tick."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LONG = 4096
"""Bytes of a body; below it the hop to a thread costs more than it saves."""


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """The work's result. `size` is the length of the body it reads."""
    return await asyncio.to_thread(work) if size > LONG else work()
