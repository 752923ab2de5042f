"""Carries out the turns of a benchmark and keeps what they brought."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from stoker.commands.bench_client import Sample, measure
from stoker.commands.bench_plan import OURS, Arm, Ask, Turn, fresh, request
from stoker.commands.bench_stats import Overhead, metric_values, overhead
from stoker.core.clock import Clock

Clients = Mapping[str, httpx.AsyncClient]
"""A client with the base URL of each arm, by the arm's name."""


@dataclass(frozen=True, slots=True)
class Done:
    """A turn that ran."""

    turn: Turn
    samples: tuple[Sample, ...]
    """Stream by stream."""

    @property
    def good(self) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples if not sample.failure)

    @property
    def wall(self) -> float:
        """Seconds from the first request's start to the last frame of all."""
        ends = [sample.ended for sample in self.good if sample.ended is not None]
        return max(ends, default=0.0) - min((sample.started for sample in self.good), default=0.0)

    @property
    def aggregate(self) -> float | None:
        """Tokens per second of all its requests, to the last one's end; None if one of them failed."""
        whole = len(self.good) == len(self.samples) and self.wall > 0
        return sum(sample.tokens for sample in self.good) / self.wall if whole else None

    @property
    def busy(self) -> float | None:
        """Tokens per second as long as all streams had something to do; None if a request failed.

        What a server gives at this concurrency. `aggregate` also has the time in which only the slowest are left.
        """
        lasts = [sample.ended for sample in self.samples[self.turn.each - 1 :: self.turn.each]]
        ended = [at for at in lasts if at is not None]
        begun = min((sample.started for sample in self.good), default=0.0)
        if len(self.good) < len(self.samples) or len(ended) < len(lasts) or min(ended, default=begun) <= begun:
            return None
        until = min(ended)
        return sum(sample.by(until) for sample in self.samples) / (until - begun)


@dataclass(frozen=True, slots=True)
class Block:
    """All measured turns of one concurrency, and what our server's tick counters said meanwhile."""

    concurrency: int
    done: tuple[Done, ...]
    overhead: Overhead | None
    skipped: int
    """Turns that the time limit left out."""


@dataclass(frozen=True, slots=True)
class Runner:
    """`until` is the stamp of `clock` after which no turn is started; `step` is told of every turn."""

    clients: Clients
    ask: Ask
    clock: Clock
    until: float
    step: Callable[[], object]

    async def block(self, concurrency: int, turns: Iterable[Turn]) -> Block:
        planned = list(turns)
        warm, cold = [turn for turn in planned if turn.warm_up], [turn for turn in planned if not turn.warm_up]
        await self._run(warm)
        before = await self._metrics()
        done = await self._run(cold)
        after = await self._metrics()
        busy = sum(one.wall for one in done if one.turn.arm.name == OURS)
        return Block(concurrency, tuple(done), overhead(before, after, busy), len(cold) - len(done))

    async def _run(self, turns: Sequence[Turn]) -> list[Done]:
        done: list[Done] = []
        for turn in turns:
            if self.clock() < self.until:
                done.append(await self._turn(turn))
            self.step()
        return done

    async def _turn(self, turn: Turn) -> Done:
        client = self.clients[turn.arm.name]

        async def stream(number: int) -> list[Sample]:
            asked = (
                request(turn.arm, turn.group, fresh(turn, number * turn.each + index, self.ask.book), self.ask)
                for index in range(turn.each)
            )
            return [await measure(client, path, body, self.clock) for path, body in asked]

        streams = await asyncio.gather(*(stream(number) for number in range(turn.concurrency)))
        return Done(turn, tuple(sample for samples in streams for sample in samples))

    async def _metrics(self) -> dict[str, float]:
        """Our arm's counters; empty where it has none, or is gone."""
        try:
            response = await self.clients[OURS].get("/metrics")
        except httpx.HTTPError:
            return {}
        return metric_values(response.text) if response.status_code == 200 else {}


async def reachable(client: httpx.AsyncClient, arm: Arm) -> str:
    """Empty when the arm answers; else a line that says what is wrong."""
    path = "/health" if arm.api == "llama" else "/v1/models"
    try:
        response = await client.get(path)
    except httpx.HTTPError as error:
        return f"no server at {arm.url}: {type(error).__name__} {error}"
    return "" if response.status_code == 200 else f"{arm.url}{path} answers {response.status_code}, not 200"


async def identity(client: httpx.AsyncClient, arm: Arm) -> dict[str, Any]:
    """What the arm says of its build and its model, for the record."""
    response = await client.get("/props" if arm.api == "llama" else "/v1/models")
    try:
        said = response.json() if response.status_code == 200 else {}
    except ValueError:  # mlx_lm.server's list of models has no body where there is no Hugging Face cache
        said = {}
    told = {"url": arm.url, "api": arm.api}
    if arm.api == "llama":
        return {**told, "build": said.get("build_info"), "model": said.get("model_path")}
    return {**told, "model": arm.model or [model.get("id") for model in said.get("data", [])]}
