"""One measured request: sends it, stamps its frames, counts its tokens."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from stoker.core.clock import Clock


@dataclass(frozen=True, slots=True)
class Sample:
    """Stamps in seconds of the clock; `tokens` as the server counts them, or frames with text where it does not."""

    started: float
    first: float | None = None
    ended: float | None = None
    tokens: int = 0
    text: str = ""
    drafted: int = 0
    accepted: int = 0
    rounds: int = 0
    failure: str = ""
    stamps: tuple[float, ...] = ()
    """When each frame with a token came."""

    @property
    def ttft(self) -> float | None:
        """Seconds to the first token."""
        return None if self.first is None else self.first - self.started

    @property
    def wall(self) -> float | None:
        """Seconds to the last frame."""
        return None if self.ended is None else self.ended - self.started

    @property
    def decode(self) -> float | None:
        """Tokens per second after the first one; None where all came in one lump."""
        if self.first is None or self.ended is None or self.tokens < 2 or self.ended <= self.first:
            return None
        return (self.tokens - 1) / (self.ended - self.first)

    def by(self, at: float) -> float:
        """Tokens that had come by then: those of a frame count alike."""
        return self.tokens * sum(stamp <= at for stamp in self.stamps) / max(len(self.stamps), 1)


@dataclass(slots=True)
class Tally:
    """What the frames of one stream add up to."""

    started: float
    first: float | None = None
    ended: float | None = None
    counted: int | None = None
    shown: int = 0
    text: list[str] = field(default_factory=list[str])
    timings: dict[str, Any] = field(default_factory=dict[str, Any])
    failure: str = ""
    stamps: list[float] = field(default_factory=list[float])
    """When each frame with a token came."""

    def frame(self, data: dict[str, Any], at: float) -> None:
        if "error" in data:
            self.failure = str(data["error"])
            return
        self.ended = at
        text = text_of(data)
        if text or (data.get("tokens") and "prompt_progress" not in data):
            self.first = at if self.first is None else self.first
            self.shown += 1
            self.stamps.append(at)
            self.text.append(text)
        usage = data.get("usage") or {}
        counted = usage.get("completion_tokens", data.get("tokens_predicted"))
        self.counted = self.counted if counted is None else counted
        self.timings = {**self.timings, **(data.get("timings") or {})}

    def sample(self) -> Sample:
        if self.first is None and not self.failure:
            self.failure = "no token came"
        return Sample(
            started=self.started,
            first=self.first,
            ended=self.ended,
            tokens=self.shown if self.counted is None else self.counted,
            text="".join(self.text),
            drafted=self.timings.get("draft_n", 0),
            accepted=self.timings.get("draft_n_accepted", 0),
            rounds=self.timings.get("draft_rounds", 0),
            failure=self.failure,
            stamps=tuple(self.stamps),
        )


def text_of(data: dict[str, Any]) -> str:
    """The text a frame shows, in llama-server's own and in both OpenAI forms; reasoning counts as text."""
    if isinstance(data.get("content"), str):
        return data["content"]
    found = ""
    for choice in data.get("choices") or []:
        delta = choice.get("delta") or {}
        found += choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""
        found += delta.get("reasoning") or ""
    return found


async def measure(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], clock: Clock, tally: Tally | None = None
) -> Sample:
    """Run one streaming request; whatever goes wrong with it becomes the sample's `failure`.

    `tally`, if given, is filled as the frames come, for those who look while they do.
    """
    tally = tally or Tally(clock())
    tally.started = clock()
    try:
        async with client.stream("POST", path, json=body) as response:
            if response.status_code != 200:
                said = (await response.aread()).decode("utf-8", errors="replace")
                tally.failure = f"status {response.status_code}: {said[:200]}"
            else:
                async for data in _frames(response):
                    tally.frame(data, clock())
    except (httpx.HTTPError, ValueError) as error:
        tally.failure = f"{type(error).__name__}: {error}"
    return tally.sample()


async def _frames(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        said = line.removeprefix("data:").strip()
        if line.startswith("data:") and said != "[DONE]":
            yield json.loads(said)
