"""Demands A5 and B3: faults in the engine, injected behind the real HTTP server."""

import asyncio
from dataclasses import dataclass, replace

import httpx

from fakes import FakeClock, FakeEngine
from live.scripted import serving
from stoker.core.work import Outcome, Plan

CHAT = "/v1/chat/completions"
WRITE_ON = {"stream": True, "temperature": 0, "max_tokens": 64, "messages": [{"role": "user", "content": "Write on."}]}
SHORT = {"prompt": "ab", "n_predict": 3}


@dataclass
class Faulty(FakeEngine):
    """Breaks one row after its second token, or, once `dies` is set, whole ticks."""

    broken: int = 1
    """The request that breaks."""
    dies: bool = False

    def tick(self, plan: Plan) -> list[Outcome]:
        if self.dies:
            raise RuntimeError("the device is gone")
        for id, row in self.rows.items():
            if id == self.broken and row.emitted == 2:
                self.faults[id] = ValueError("a broken row")
        return super().tick(plan)


def counting() -> Faulty:
    return Faulty(clock=FakeClock(), model=lambda prompt, n: ord("a") + n % 26)


async def test_a5_a_fault_in_the_middle_of_a_stream_is_an_error_frame_and_the_end() -> None:
    async with serving(counting()) as client:
        async with client.stream(CHAT, WRITE_ON) as stream:
            await stream.rest()
        *before, last = stream.frames
        assert stream.raw[-1][1].startswith('data: {"error"'), "nothing comes behind it"
        assert set(last["error"]) == {"code", "message", "type"}
        assert last["error"]["code"] == 500
        assert {choice["finish_reason"] for frame in before for choice in frame["choices"]} == {None}
        assert "".join(frame["choices"][0]["delta"].get("content") or "" for frame in before) == "ab"
        assert (await client.ask("/completion", SHORT))["content"] == "abc"


async def test_b3_one_bad_request_does_not_end_the_loop_for_the_others() -> None:
    async with serving(replace(counting(), broken=2)) as client:
        long = {**SHORT, "n_predict": 20}
        first, second, third = await asyncio.gather(*(client.post("/completion", long) for _ in range(3)))
        assert [first.status_code, second.status_code, third.status_code] == [200, 500, 200]
        assert first.json()["content"] == third.json()["content"] == "abcdefghijklmnopqrst"
        assert (await client.http.get("/health")).status_code == 200


async def test_b3_health_says_503_when_the_loop_is_dead_and_every_waiter_hears_of_it() -> None:
    engine = counting()
    engine.broken = 0
    async with serving(engine) as client:
        assert (await client.http.get("/health")).status_code == 200
        engine.dies = True
        waiting: list[httpx.Response] = await asyncio.gather(*(client.post("/completion", SHORT) for _ in range(4)))
        assert [response.status_code for response in waiting] == [500] * 4
        health = await client.http.get("/health")
        assert (health.status_code, health.json()["error"]["type"]) == (503, "unavailable_error")
        assert (await client.post("/completion", SHORT)).status_code == 503
