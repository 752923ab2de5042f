"""Server-sent events as llama-server frames them: `data: …`, a blank line, `:` in silence, errors as a last frame.

Why not sse-starlette: see docs/decisions/0003-own-event-stream.md.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stoker.core import clock
from stoker.core.errors import ServerError
from stoker.routes.body import Json, dump
from stoker.routes.disconnect import left
from stoker.routes.errors import envelope, fault

DONE = b"data: [DONE]\n\n"
PING = b":\n\n"

Frames = AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Named:
    """A frame of an API whose events have names."""

    event: str
    data: Json


Frame = Json | Named


def encode(frames: Sequence[Frame]) -> bytes:
    return b"".join(map(_encode, frames))


def _encode(frame: Frame) -> bytes:
    if isinstance(frame, Named):
        return b"event: " + frame.event.encode() + b"\ndata: " + dump(frame.data) + b"\n\n"
    return b"data: " + dump(frame) + b"\n\n"


def plain_failure(error: ServerError) -> list[Frame]:
    return [envelope(error)]


@dataclass(frozen=True, slots=True)
class Voice:
    """What a stream says of its own accord."""

    ping: bytes = PING
    failure: Callable[[ServerError], list[Frame]] = plain_failure


USUAL = Voice()


class FrameResponse(Response):
    """Sends frames until they end, the client leaves or stops reading; then closes both ends of the request.

    `close` is called exactly once, at the end, whatever the end was. `ping` and `send_timeout` are in seconds,
    a `ping` of 0 or less is off. Once frames flow the status is out, so an error becomes the last frame.
    """

    def __init__(
        self,
        frames: Frames,
        close: Callable[[], None],
        *,
        ping: float,
        send_timeout: float,
        voice: Voice = USUAL,
    ) -> None:
        super().__init__(headers={"content-type": "text/event-stream"})
        del self.headers["content-length"]
        self.frames = frames
        self.close = close
        self.voice = voice
        self.interval = ping
        self.send_timeout = send_timeout
        self.last = clock.now()
        self.lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = [asyncio.create_task(self.pump(send)), asyncio.create_task(left(receive))]
        if self.interval > 0:
            work.append(asyncio.create_task(self.ping(send)))
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.close()
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await self.frames.aclose()

    async def pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with contextlib.aclosing(self.guarded()) as frames:
            async for frame in frames:
                await self.write(send, frame)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def guarded(self) -> Frames:
        """The frames, and whatever breaks them off as one more."""
        try:
            async for frame in self.frames:
                yield frame
        except ServerError as error:
            yield encode(self.voice.failure(error))
        except Exception as error:  # noqa: BLE001 - the second of two places: the status is out, the client must hear of it
            yield encode(self.voice.failure(fault(error)))

    async def write(self, send: Send, body: bytes) -> None:
        """One piece of the body; TimeoutError if the client takes none for too long."""
        async with self.lock, asyncio.timeout(self.send_timeout):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        self.last = clock.now()

    async def ping(self, send: Send) -> None:
        while True:
            silent = clock.now() - self.last
            if silent >= self.interval:
                await self.write(send, self.voice.ping)
            else:
                await asyncio.sleep(self.interval - silent)
