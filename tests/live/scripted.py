"""The real HTTP server, in this process, around the real scheduler and an engine that follows a script."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import uvicorn

from fakes import FakeEngine, Inline
from live.client import Client, client_of
from routes.fakes import Bench, ByteTokenizer
from stoker.core.work import Traits
from stoker.scheduler.device import Ran
from stoker.scheduler.scheduler import Scheduler, Vocabulary
from stoker.text.template import ChatTemplate

T = TypeVar("T")

SLOTS, CONTEXT = 2, 4096
END = 258
"""`<|im_end|>` of the byte tokenizer."""


@dataclass
class Paced(Inline):
    """Ticks take real time, and the web server works meanwhile."""

    seconds: float = 0.001

    async def run(self, call: Callable[[], T]) -> Ran[T]:
        await asyncio.sleep(self.seconds)
        return await super().run(call)


def speaker(*rules: tuple[str, str]) -> Callable[[Sequence[int], int], int]:
    """A model that answers a prompt with the text of the first rule whose key the prompt ends with, then the end.

    So it goes on behind words that were put into its mouth as behind a prompt.
    """

    def model(prompt: Sequence[int], n: int) -> int:
        text = bytes(id for id in prompt if id < 256).decode()
        answer = next((answer for key, answer in rules if text.endswith(key)), "?").encode()
        return answer[n] if n < len(answer) else END

    return model


@contextlib.asynccontextmanager
async def serving(engine: FakeEngine, template: str | None = None, seconds: float = 0.001) -> AsyncIterator[Client]:
    """`seconds`: of a tick."""
    tokenizer = ByteTokenizer()

    def piece(id: int, special: bool) -> bytes:
        return tokenizer.piece(id, special=special)

    traits, vocabulary = Traits(SLOTS, CONTEXT), Vocabulary(piece, tokenizer.end_ids)
    scheduler = Scheduler(engine, Paced(engine.clock, seconds), traits, vocabulary)
    bench = Bench(changes={"scheduler": scheduler, "slots": SLOTS, "context": CONTEXT})
    if template is not None:
        bench.state.service = replace(bench.service, template=ChatTemplate(template))
    config = uvicorn.Config(
        bench.app, log_config=None, access_log=False, server_header=False, lifespan="off", ws="none"
    )
    server, listener = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    running = asyncio.create_task(scheduler.run())
    listening = asyncio.create_task(server.serve([listener]))
    try:
        async with client_of(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            yield client
    finally:
        server.should_exit = True
        await scheduler.stop()
        await asyncio.gather(running, listening, return_exceptions=True)
        await bench.client.aclose()
