"""One request's events, from the scheduler to the route that answers it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from stoker.core.events import Embedded, Event, Failed, Finished, Tokens


class Stream:
    """A queue that never blocks the one who fills it. Both ends live on the event loop.

    Adjacent `Tokens` merge while the reader is away: fewer wake-ups, not fewer frames.
    Its length is bounded by what a request may generate.
    """

    def __init__(self, id: int) -> None:
        self.id = id
        self._events: deque[Event] = deque()
        self._ready = asyncio.Event()
        self._closed = False

    def push(self, events: Iterable[Event]) -> None:
        """Adds events; after `Finished`, `Embedded`, `Failed` or `close` they are dropped."""
        for event in events:
            if self._closed:
                return
            last = self._events[-1] if self._events else None
            if isinstance(event, Tokens) and isinstance(last, Tokens):
                self._events[-1] = Tokens((*last.pieces, *event.pieces))
            else:
                self._events.append(event)
            self._closed = isinstance(event, Finished | Embedded | Failed)
        self._ready.set()

    def close(self) -> None:
        """Nobody reads any more: what waits is dropped, a reader that is still there ends."""
        self._closed = True
        self._events.clear()
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._ready.clear()
            await self._ready.wait()
