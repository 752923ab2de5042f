"""Scenarios of `stoker bench` about waiting, not about rate: a burst of prompts, and a long prompt beside streams.

They need llama-server's own API at `--url`: /tokenize for prompts of an exact length, and /metrics for the
number and the time of the forwards that read prompts (`stoker:prefill_chunk…`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx

from stoker.commands.bench_client import Sample, Tally, measure
from stoker.commands.bench_plan import prompts
from stoker.commands.bench_stats import Spread, metric_values, spread
from stoker.core.clock import Clock

CHUNKS, CHUNK_SECONDS = "stoker:prefill_chunks_total", "stoker:prefill_chunk_seconds_total"
BURST, BURST_TOKENS = 16, 30
STREAMS, LONG_TOKENS = 4, 2000
STREAM_TOKENS = 16
"""Prompt tokens of a stream that a long prompt comes beside."""
SETTLED = 4
"""Tokens that such a stream has sent before the long prompt comes."""

Figures = dict[str, float]


class ScenarioError(Exception):
    """A request failed, so there is no figure; its text says why."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A server, and the size of what it is asked: `requests` prompts or streams, `tokens` in a prompt."""

    client: httpx.AsyncClient
    clock: Clock
    requests: int
    tokens: int

    async def prompt(self, name: str, tokens: int) -> list[int]:
        """Ids of a prompt of that length whose first tokens, made of `name`, no prefix cache has seen."""
        text = f"{name}\n" + "\n".join(prompts("prose"))
        ids: list[int] = []
        while len(ids) < tokens:
            response = await self.client.post("/tokenize", json={"content": text, "add_special": False})
            response.raise_for_status()
            ids += response.json()["tokens"]
        return ids[:tokens]

    async def ask(self, prompt: Sequence[int], predict: int, tally: Tally | None = None) -> Sample:
        """A greedy stream; ScenarioError if it fails."""
        body: dict[str, Any] = {
            "prompt": list(prompt),
            "n_predict": predict,
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
            "cache_prompt": False,
            "return_tokens": True,
        }
        sample = await measure(self.client, "/completion", body, self.clock, tally)
        if sample.failure:
            raise ScenarioError(sample.failure)
        return sample

    async def first_token(self, prompt: Sequence[int]) -> float:
        """Seconds until the prompt's first token."""
        sample = await self.ask(prompt, 1)
        assert sample.first is not None, "a sample without failure has a first token"
        return sample.first - sample.started

    async def chunks(self) -> tuple[float, float]:
        """Forwards that have read prompts, and the seconds that they took."""
        response = await self.client.get("/metrics")
        found = metric_values(response.text) if response.status_code == 200 else {}
        if CHUNKS not in found or CHUNK_SECONDS not in found:
            raise ScenarioError(f"the server has no {CHUNK_SECONDS}: start it with --metrics")
        return found[CHUNKS], found[CHUNK_SECONDS]


async def burst(scene: Scene, round: int) -> Figures:
    """All prompts at once, against one prompt that is as long as all of them together.

    That one stands for the padded prefill of all: the same number of columns through the model, and the same
    way in and out. (It costs a little more attention, as its columns see each other.)
    """
    alike = [await scene.prompt(f"{round}.{n}", scene.tokens) for n in range(scene.requests)]
    whole = await scene.prompt(f"{round}.whole", scene.tokens * scene.requests)
    alone = await scene.first_token(whole)
    before, began = await scene.chunks(), scene.clock()
    samples = await asyncio.gather(*(scene.ask(prompt, 1) for prompt in alike))
    after = await scene.chunks()
    last = max(sample.first for sample in samples if sample.first is not None) - began
    return {
        "last first token, ms": 1e3 * last,
        "one prompt of all tokens, ms": 1e3 * alone,
        "last / one prompt": last / alone,
        "prompt forwards": after[0] - before[0],
        "in prompt forwards, ms": 1e3 * (after[1] - before[1]),
    }


async def long_prompt(scene: Scene, round: int) -> Figures:
    """A long prompt beside streams: how long a stream stands still, and what the prompt waits."""
    long = await scene.prompt(f"{round}.long", scene.tokens)
    tallies = [Tally(scene.clock()) for _ in range(scene.requests)]
    starts = [await scene.prompt(f"{round}.{n}", STREAM_TOKENS) for n in range(scene.requests)]
    streams = [asyncio.create_task(scene.ask(p, -1, tally)) for p, tally in zip(starts, tallies, strict=True)]
    try:
        while any(len(tally.stamps) < SETTLED for tally in tallies):
            _check(streams)
            await asyncio.sleep(0.001)
        before, began = await scene.chunks(), scene.clock()
        beside = await scene.first_token(long)
        ended, after = scene.clock(), await scene.chunks()
        _check(streams)
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    alone = await scene.first_token([*long[1:], long[0]])
    gap = max(largest_gap(tally.stamps, began, ended) for tally in tallies)
    chunk = (after[1] - before[1]) / max(after[0] - before[0], 1)
    return {
        "largest gap of a stream, ms": 1e3 * gap,
        "prompt forward, ms": 1e3 * chunk,
        "gap / prompt forward": gap / chunk if chunk else 0.0,
        "first token beside streams, ms": 1e3 * beside,
        "first token alone, ms": 1e3 * alone,
        "beside / alone": beside / alone,
    }


def _check(streams: Sequence["asyncio.Task[Sample]"]) -> None:
    """A stream that has ended was too short, or has failed: either way there is nothing to measure."""
    for stream in streams:
        if stream.done():
            raise stream.exception() or ScenarioError("a stream ended before the long prompt was read")


def largest_gap(stamps: Sequence[float], began: float, ended: float) -> float:
    """Longest time without a token between two stamps, its ends included."""
    inside = [began, *(at for at in stamps if began < at < ended), ended]
    return max(b - a for a, b in pairwise(inside))


@dataclass(frozen=True, slots=True)
class Scenario:
    play: Callable[[Scene, int], Awaitable[Figures]]
    requests: int
    tokens: int


SCENARIOS: Mapping[str, Scenario] = {
    "burst": Scenario(burst, BURST, BURST_TOKENS),
    "long-prompt": Scenario(long_prompt, STREAMS, LONG_TOKENS),
}


async def play(scenario: Scenario, scene: Scene, rounds: int, warm_ups: int) -> list[Figures]:
    """The figures of each round; those of the warm-ups are dropped. ScenarioError if a request fails."""
    try:
        played = [await scenario.play(scene, index) for index in range(-warm_ups, rounds)]
    except httpx.HTTPError as error:
        raise ScenarioError(f"{type(error).__name__}: {error}") from error
    return played[warm_ups:]


def table(found: Sequence[Figures]) -> str:
    """A line a figure: its median, with the tenth and ninetieth percentiles in brackets."""
    width = max(len(name) for name in found[0])
    lines = ((name, spread([figures[name] for figures in found])) for name in found[0])
    return "\n".join(f"{name.ljust(width)}  {_said(value)}" for name, value in lines if value)


def _said(value: Spread) -> str:
    return f"{value.median:.2f} ({value.low:.2f}-{value.high:.2f})"
