"""Frames, pings, errors and the ends of a stream, at the ASGI seam."""

import asyncio
from collections.abc import Callable
from typing import Any

from stoker.core.errors import InvalidRequest
from stoker.routes.sse import DONE, PING, FrameResponse, Frames, encode


class Wire:
    """Both ends of an ASGI connection."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()
        self.stuck = False

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.stuck and message["type"] == "http.response.body":
            await asyncio.Event().wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


async def serve(frames: Frames, wire: Wire, *, ping: float = 0, send_timeout: float = 5) -> int:
    """Runs the response to its end; returns how often it was closed."""
    closed: list[int] = []
    close: Callable[[], None] = lambda: closed.append(1)  # noqa: E731
    response = FrameResponse(frames, close, ping=ping, send_timeout=send_timeout)
    await response({"type": "http"}, wire.receive, wire.send)
    return len(closed)


async def said(*frames: bytes, pause: float = 0.0, fault: Exception | None = None) -> Frames:
    for frame in frames:
        yield frame
        await asyncio.sleep(pause)
    if fault:
        raise fault


def test_a_frame_is_a_data_line_and_a_blank_line() -> None:
    assert encode([{"a": "é"}, {"b": 1}]) == 'data: {"a":"é"}\n\ndata: {"b":1}\n\n'.encode()


async def test_a_stream_has_llama_servers_type_no_length_and_ends_itself() -> None:
    wire = Wire()
    assert await serve(said(b"data: 1\n\n", DONE), wire) == 1
    assert wire.sent[0]["headers"] == [(b"content-type", b"text/event-stream")]
    assert wire.body == b"data: 1\n\ndata: [DONE]\n\n"
    assert wire.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_silence_is_filled_with_comments() -> None:
    wire = Wire()
    await serve(said(b"data: 1\n\n", pause=0.25), wire, ping=0.1)
    assert wire.body.startswith(b"data: 1\n\n" + 2 * PING)
    assert wire.body.replace(PING, b"") == b"data: 1\n\n"


async def test_frames_put_the_next_comment_off() -> None:
    wire = Wire()
    await serve(said(*[b"data: 1\n\n"] * 6, pause=0.04), wire, ping=0.15)
    assert PING not in wire.body


async def test_no_interval_means_no_comments() -> None:
    wire = Wire()
    await serve(said(b"data: 1\n\n", pause=0.1), wire, ping=-1)
    assert wire.body == b"data: 1\n\n"


async def test_an_error_after_the_start_is_the_last_frame() -> None:
    wire = Wire()
    assert await serve(said(b"data: 1\n\n", fault=InvalidRequest("no")), wire) == 1
    assert wire.body.endswith(b'data: {"error":{"code":400,"message":"no","type":"invalid_request_error"}}\n\n')


async def test_an_unforeseen_fault_is_a_last_frame_without_a_traceback() -> None:
    wire = Wire()
    await serve(said(fault=ZeroDivisionError("secret")), wire)
    assert b'"code":500' in wire.body
    assert b"secret" not in wire.body


async def test_a_client_that_leaves_ends_the_frames_and_closes() -> None:
    wire = Wire()
    ended: list[str] = []

    async def endless() -> Frames:
        try:
            while True:
                yield b"data: 1\n\n"
                await asyncio.sleep(0.01)
        finally:
            ended.append("frames")

    asyncio.get_running_loop().call_later(0.05, wire.gone.set)
    assert await serve(endless(), wire, ping=1) == 1
    assert ended == ["frames"]
    assert wire.sent[-1].get("more_body") is True


async def test_a_client_that_takes_nothing_is_given_up() -> None:
    wire = Wire()
    wire.stuck = True
    assert await serve(said(b"data: 1\n\n"), wire, send_timeout=0.05) == 1
    assert wire.body == b""


async def test_a_cancelled_server_closes_the_request() -> None:
    wire, closed = Wire(), asyncio.Event()
    response = FrameResponse(said(b"data: 1\n\n", pause=10), closed.set, ping=0, send_timeout=5)
    task = asyncio.create_task(response({"type": "http"}, wire.receive, wire.send))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert closed.is_set()
