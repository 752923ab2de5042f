"""Fakes for the two seams of the HTTP edge, a scripted scheduler and a byte tokenizer, and an app around them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from letters import Letters
from stoker.app import create
from stoker.core.errors import ServerError
from stoker.core.events import Event, Finished, Piece, Progress, StopType, Tokens
from stoker.core.info import ModelInfo
from stoker.core.request import Request
from stoker.core.timings import Timings
from stoker.core.work import Filed, SlotAction, TokenProbs
from stoker.routes.service import Edge, Service, State, Switches
from stoker.scheduler.views import SlotView, Totals
from stoker.text.fim import FimTokens
from stoker.text.grammar import Grammars
from stoker.text.template import ChatTemplate

Script = Callable[[Request], Iterable[Event | float | asyncio.Event]]
"""What a request's stream says; a number is a pause in seconds, an asyncio.Event a wait."""

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
    "are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass
class ByteTokenizer:
    """Ids 0 to 255 are bytes, 256 and up are named special tokens."""

    specials: tuple[str, ...] = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    adds_bos: bool = False
    vocab: int = 300
    fim: FimTokens = field(default_factory=FimTokens)

    @property
    def end_ids(self) -> frozenset[int]:
        return frozenset({256, 258})

    @property
    def bos_text(self) -> str:
        return self.specials[1]

    @property
    def eos_text(self) -> str:
        return self.specials[2]

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        ids = [257] if add_special and self.adds_bos else []
        while text:
            named = [name for name in self.specials if parse_special and text.startswith(name)]
            if named:
                ids.append(256 + self.specials.index(named[0]))
                text = text[len(named[0]) :]
            else:
                ids += text[0].encode()
                text = text[1:]
        return ids

    def piece(self, id: int, *, special: bool = True) -> bytes:
        if id < 256:
            return bytes((id,))
        return self.specials[id - 256].encode() if special and id - 256 < len(self.specials) else b""

    def decode(self, ids: list[int], *, special: bool = True) -> bytes:
        return b"".join(self.piece(id, special=special) for id in ids)


class FakeScheduler:
    """Says what its script says, and remembers what it was asked."""

    def __init__(self, script: Script | None = None) -> None:
        self.script: Script = script or says("Hi", " there")
        self.requests: list[Request] = []
        self.cancelled: list[int] = []
        self.ended: list[int] = []
        self.thinks = True
        self.views = [SlotView(0), SlotView(1)]
        self.sums = Totals()
        self.healthy = True
        self.sleeping = False
        self.acts: list[tuple[int, SlotAction, str]] = []
        self.filed: Filed | ServerError = Filed((1, 2, 3), 4000, 0.0015)
        self.refusal: ServerError | None = None
        self.refuse_from = 1
        self.restored_under: tuple[float, ...] = ()
        self._id = -1

    def next_id(self) -> int:
        self._id += 1
        return self._id

    def submit(self, request: Request) -> "FakeStream":
        self.requests.append(request)
        if self.refusal and len(self.requests) >= self.refuse_from:
            raise self.refusal
        return FakeStream(self.script(request))

    def cancel(self, id: int) -> None:
        self.cancelled.append(id)

    def end_thought(self, id: int) -> bool:
        self.ended.append(id)
        return self.thinks

    async def act(self, slot: int, action: SlotAction, path: str = "", adapters: tuple[float, ...] = ()) -> Filed:
        self.restored_under = adapters
        self.acts.append((slot, action, path))
        if isinstance(self.filed, ServerError):
            raise self.filed
        return self.filed

    async def rouse(self) -> None:
        self.sleeping = False

    def slots(self) -> list[SlotView]:
        return self.views

    def totals(self) -> Totals:
        return self.sums


@dataclass
class FakeStream:
    script: Iterable[Event | float | asyncio.Event]

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in self.script:
            if isinstance(event, int | float):
                await asyncio.sleep(event)
            elif isinstance(event, asyncio.Event):
                await event.wait()
            else:
                yield event


def timings(prompt: int = 5, predicted: int = 2, cached: int = 0) -> Timings:
    return Timings(cached, prompt - cached, 10.0, predicted, 4.0 if predicted > 1 else 0.001)


def progress(request: Request, processed: int = 0) -> Progress:
    return Progress(len(request.prompt), 0, processed, 0.0)


def piece(text: str, count: int, *, token: int = 7, probs: TokenProbs | None = None, stops: bool = False) -> Piece:
    return Piece(token, text, count, timings(predicted=count), probs, stops)


def finished(request: Request, text: str, tokens: Sequence[int] = (), **changes: Any) -> Finished:
    tokens = tuple(tokens) or (7,) * max(len(text.split()), 1)
    end = Finished(
        stop=StopType.LIMIT,
        stopping_word="",
        text=text,
        tokens=tokens,
        pieces=(),
        slot=1,
        prompt_tokens=len(request.prompt),
        cached_tokens=0,
        truncated=False,
        has_new_line="\n" in text,
        timings=timings(len(request.prompt), len(tokens)),
    )
    return replace(end, **changes)


def says(*texts: str, **changes: Any) -> Script:
    """A script: one token a text, then the end."""

    def script(request: Request) -> Iterable[Event]:
        yield progress(request)
        for count, text in enumerate(texts, 1):
            yield Tokens((piece(text, count),))
        yield finished(request, "".join(texts), (7,) * len(texts), **changes)

    return script


INFO = ModelInfo("MODEL.gguf", "llama", "Q4_1", 300, 8192, 576, 134515008, 96576768)


GRAMMARS = Grammars(Letters())
"""Whether a text is a grammar hardly depends on the vocabulary."""


@dataclass
class Bench:
    """An app with everything around it replaced by fakes."""

    scheduler: FakeScheduler = field(default_factory=FakeScheduler)
    edge: Edge = field(default_factory=Edge)
    template: ChatTemplate = field(default_factory=lambda: ChatTemplate(SMOLLM2))
    tokenizer: Any = field(default_factory=ByteTokenizer)
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    loading: bool = False

    def __post_init__(self) -> None:
        self.service = replace(
            Service(
                scheduler=self.scheduler,
                tokenizer=self.tokenizer,
                template=self.template,
                info=INFO,
                aliases=("smollm2",),
                slots=2,
                context=1024,
                build="b10621-stoker",
                started=1_700_000_000,
                grammars=GRAMMARS,
                switches=Switches(slots=True, props=True, metrics=True),
            ),
            **self.changes,
        )
        self.state = State(self.edge, None if self.loading else self.service)
        self.app = create(self.state)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://test")

    async def post(self, path: str, body: object = None, **kwargs: Any) -> httpx.Response:
        return await self.client.post(path, json=body, **kwargs)

    async def get(self, path: str, **kwargs: Any) -> httpx.Response:
        return await self.client.get(path, **kwargs)


def bench(script: Script | None = None, **changes: Any) -> Bench:
    """A bench whose scheduler follows a script; `changes` are fields of the Service."""
    return Bench(scheduler=FakeScheduler(script), changes=changes)


def frames(response: httpx.Response) -> list[Any]:
    """The JSON of each frame; `[DONE]` and comments as text."""
    assert response.headers["content-type"] == "text/event-stream"
    *blocks, rest = response.text.split("\n\n")
    assert rest == "", "a stream ends with a blank line"
    return [_frame(block) for block in blocks]


def _frame(block: str) -> Any:
    if not block.startswith("data: {"):
        return block.removeprefix("data: ")
    return json.loads(block.removeprefix("data: "))


def events(response: httpx.Response) -> list[Any]:
    """The data of each named frame; its name is its type, or `error`."""
    assert response.headers["content-type"] == "text/event-stream"
    *blocks, rest = response.text.split("\n\n")
    assert rest == ""
    found: list[Any] = []
    for block in blocks:
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}" or name == "event: error"
    return found


def message(response: httpx.Response) -> str:
    return response.json()["error"]["message"]
