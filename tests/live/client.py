"""What a client does to a live server: ask, stream, leave, look at /slots and /metrics."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from stoker.commands.bench_stats import metric_values

Body = dict[str, Any]
WAIT_SECONDS = 30.0
TICKS = "stoker:ticks_total"


class Client:
    """One server's; every call is one HTTP request."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def post(self, path: str, body: Body) -> httpx.Response:
        return await self.http.post(path, json=body)

    async def ask(self, path: str, body: Body) -> Body:
        """The answer's body, which must be a 200."""
        response = await self.post(path, body)
        assert response.status_code == 200, response.text
        return response.json()

    async def complete(self, prompt: str, count: int, **more: Any) -> Body:
        """A greedy /completion."""
        return await self.ask("/completion", {"prompt": prompt, "n_predict": count, "temperature": 0, **more})

    async def metrics(self) -> dict[str, float]:
        return metric_values((await self.http.get("/metrics")).text)

    async def slots(self) -> list[Body]:
        return (await self.http.get("/slots")).json()

    async def busy(self) -> list[Body]:
        return [slot for slot in await self.slots() if slot["is_processing"]]

    async def ticks(self) -> int:
        return int((await self.metrics())[TICKS])

    async def until_busy(self, count: int) -> int:
        """Waits until so many slots are busy: ticks_total at that moment."""
        return await self.until(lambda busy: len(busy) == count)

    async def until(self, right: Callable[[list[Body]], bool]) -> int:
        """Waits until the busy slots are as wished: ticks_total at that moment."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not right(await self.busy()):
                await asyncio.sleep(0.002)
        return await self.ticks()

    async def until_metric(self, name: str, value: float) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while (await self.metrics())[name] != value:
                await asyncio.sleep(0.01)

    def stream(self, path: str, body: Body) -> "contextlib.AbstractAsyncContextManager[Stream]":
        """Opens a stream; leaving the block closes its connection, whether it has ended or not."""
        return _opened(self.http, path, {**body, "stream": True})


@dataclass
class Stream:
    """The frames of a streamed answer as they come. `raw` are all lines, comments too."""

    response: httpx.Response
    frames: list[Body] = field(default_factory=list[Body])
    raw: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    lines: AsyncIterator[str] | None = None

    async def next(self) -> Body | None:
        """The next frame; None at the end. A comment is kept and passed over."""
        if self.lines is None:
            self.lines = self.response.aiter_lines()
        async for line in self.lines:
            if line:
                self.raw.append((asyncio.get_running_loop().time(), line))
            said = line.removeprefix("data: ")
            if said not in (line, "[DONE]"):
                self.frames.append(json.loads(said))
                return self.frames[-1]
        return None

    async def read(self, count: int) -> None:
        """Reads so many frames with text in them."""
        while count:
            frame = await self.next()
            assert frame is not None, self.raw
            count -= bool(text_of(frame))

    async def rest(self) -> "Stream":
        while await self.next() is not None:
            pass
        return self

    @property
    def text(self) -> str:
        return "".join(map(text_of, self.frames))


def text_of(frame: Body) -> str:
    """The text of a native frame, a chat chunk or a completion chunk."""
    if "choices" in frame:
        return "".join(
            choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in frame["choices"]
        )
    return frame.get("content", "")


@contextlib.asynccontextmanager
async def _opened(http: httpx.AsyncClient, path: str, body: Body) -> AsyncIterator[Stream]:
    async with http.stream("POST", path, json=body) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        yield Stream(response)


@contextlib.asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Client]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=60.0, limits=limits, trust_env=False) as http:
        yield Client(http)
