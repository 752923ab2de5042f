"""A client that leaves cancels what it asked for: streaming or not, running or queued."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from routes.fakes import Bench, FakeScheduler, finished, piece, progress
from stoker.core.events import Tokens
from stoker.core.request import Request
from stoker.routes.disconnect import ClientGoneError, while_connected


async def leaving_after(body: dict[str, Any], bench: Bench, leave: Callable[[list[Any]], bool]) -> list[Any]:
    """Sends a body, leaves when `leave(messages)` says so; returns what was received till then."""
    gone, sent, unread = asyncio.Event(), list[Any](), [json.dumps(body).encode()]

    async def receive() -> dict[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if leave(sent):
            gone.set()

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/completion",
        "query_string": b"",
        "headers": [],
        "server": ("test", 80),
        "scheme": "http",
    }
    if leave([]):
        asyncio.get_running_loop().call_later(0.05, gone.set)
    await asyncio.wait_for(bench.app(scope, receive, send), 5)
    return sent


def endless(request: Request) -> Any:
    yield progress(request)
    for count in range(1, 1000):
        yield Tokens((piece("a", count),))
        yield 0.01


def queued(request: Request) -> Any:
    yield 60.0
    yield finished(request, "never")


async def test_leaving_a_stream_cancels_it() -> None:
    bench = Bench(FakeScheduler(endless))
    sent = await leaving_after({"prompt": "a", "stream": True}, bench, lambda sent: len(sent) > 3)
    assert bench.scheduler.cancelled == [0]
    assert len(sent) < 10


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("prompt", ["a", ["a", "b"]])
async def test_leaving_the_queue_cancels_all_of_it(stream: bool, prompt: Any) -> None:
    bench = Bench(FakeScheduler(queued))
    await leaving_after({"prompt": prompt, "stream": stream}, bench, lambda sent: not sent)
    assert bench.scheduler.cancelled == list(range(len(prompt)))


async def test_leaving_while_the_answer_is_made_cancels_it() -> None:
    bench = Bench(FakeScheduler(endless))
    sent = await leaving_after({"prompt": "a"}, bench, lambda sent: not sent)
    assert bench.scheduler.cancelled == [0]
    assert sent[0]["status"] == 499


async def test_a_part_of_the_body_is_not_taken_for_the_end() -> None:
    messages = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        await asyncio.sleep(0)
        return messages.pop(0)

    with pytest.raises(ClientGoneError):
        await while_connected(receive, asyncio.sleep(5))
    assert messages == []


async def test_finished_work_is_returned_and_an_error_of_the_work_is_raised() -> None:
    async def receive() -> Any:
        await asyncio.Event().wait()

    async def broken() -> None:
        raise LookupError

    assert await while_connected(receive, asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError):
        await while_connected(receive, broken())


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: Any) -> None:
        assert message.get("status") in (499, None)

    bench = Bench()
    for path in ("/completion", "/v1/chat/completions", "/tokenize"):
        messages[:] = [{"type": "http.request", "body": b'{"prompt"', "more_body": True}, {"type": "http.disconnect"}]
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
        await bench.app(scope, receive, send)
    assert not bench.scheduler.requests
    assert not caplog.records
