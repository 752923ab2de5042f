"""The scenarios against a scripted server: what they ask, in which order, and what they make of the answers."""

import argparse
import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoker.commands import bench
from stoker.commands.bench_scenarios import SCENARIOS, Scene, largest_gap, play, table

Answer = tuple[int, str]
Exchange = Callable[[str, dict[str, Any]], Answer]


class Ticking:
    """A clock that moves on by one second each time it is read."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        self.at += 1.0
        return self.at


class Scripted(httpx.AsyncBaseTransport):
    """llama-server's API: a prompt takes one forward a request; endless streams send a token whenever they may."""

    def __init__(self, *, metrics: bool = True, endless: int = 10**6, refuse: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.forwards = 0
        self.metrics, self.endless, self.refuse = metrics, endless, refuse
        self.closed = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread() or "{}")
        match request.url.path:
            case "/tokenize":
                return httpx.Response(200, json={"tokens": [ord(letter) for letter in body["content"]]})
            case "/metrics":
                lines = (f"stoker:prefill_{name} {self.forwards}" for name in ("chunks_total", "chunk_seconds_total"))
                return httpx.Response(200 if self.metrics else 501, text="\n".join(lines))
            case "/completion":
                self.bodies.append(body)
                if self.refuse and len(body["prompt"]) >= self.refuse:
                    return httpx.Response(400, text="too long")
                return httpx.Response(200, stream=Frames(self, body["n_predict"]))
            case _:
                return httpx.Response(200, json={"build_info": "b1-x", "model_path": "x.gguf"})


class Frames(httpx.AsyncByteStream):
    def __init__(self, server: Scripted, predict: int) -> None:
        self.server, self.predict = server, predict

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.server.forwards += 1
        for count in range(1, 1 + (self.predict if self.predict > 0 else self.server.endless)):
            await asyncio.sleep(0)
            frame = {"content": "a", "tokens": [7], "tokens_predicted": count}
            yield f"data: {json.dumps(frame)}\n\n".encode()

    async def aclose(self) -> None:
        self.server.closed += 1


def scene(server: Scripted, requests: int, tokens: int) -> Scene:
    return Scene(httpx.AsyncClient(transport=server, base_url="http://127.0.0.1:1"), Ticking(), requests, tokens)


async def test_a_burst_is_compared_with_one_prompt_of_all_its_tokens() -> None:
    server = Scripted()
    (found,) = await play(SCENARIOS["burst"], scene(server, 4, 30), 1, 0)
    whole, *alike = (body["prompt"] for body in server.bodies)
    assert len(whole) == 4 * 30
    assert [len(prompt) for prompt in alike] == [30] * 4
    assert len({tuple(prompt[:5]) for prompt in (whole, *alike)}) == 5, "no prompt begins like another"
    assert all(body["n_predict"] == 1 and body["cache_prompt"] is False for body in server.bodies)
    assert found["prompt forwards"] == 4
    assert found["in prompt forwards, ms"] == 4000
    assert found["last / one prompt"] == found["last first token, ms"] / found["one prompt of all tokens, ms"] > 1


async def test_rounds_differ_in_their_prompts_and_warm_ups_are_dropped() -> None:
    server = Scripted()
    found = await play(SCENARIOS["burst"], scene(server, 2, 20), 2, 1)
    assert len(found) == 2
    assert len(server.bodies) == 9
    assert len({tuple(body["prompt"]) for body in server.bodies}) == 9


async def test_a_long_prompt_comes_when_all_streams_run_and_ends_them() -> None:
    server = Scripted()
    (found,) = await play(SCENARIOS["long-prompt"], scene(server, 3, 200), 1, 0)
    lengths = [(len(body["prompt"]), body["n_predict"]) for body in server.bodies]
    assert lengths == [(16, -1)] * 3 + [(200, 1)] * 2
    assert server.bodies[3]["prompt"] != server.bodies[4]["prompt"]
    assert server.closed == 5
    assert found["prompt forward, ms"] == 1000
    assert found["gap / prompt forward"] == found["largest gap of a stream, ms"] / 1000 > 0
    assert found["beside / alone"] == found["first token beside streams, ms"] / found["first token alone, ms"] >= 1


def test_a_gap_is_measured_inside_the_two_stamps_only() -> None:
    assert largest_gap([1.0, 9.0, 11.0, 12.0, 19.0, 40.0], 10.0, 20.0) == 7.0
    assert largest_gap([], 10.0, 20.0) == 10.0
    assert largest_gap([10.5], 10.0, 20.0) == 9.5


def test_the_table_has_a_line_a_figure() -> None:
    assert table([{"a, ms": 1.0, "longer": 3.0}, {"a, ms": 1.0, "longer": 3.0}]).splitlines() == [
        "a, ms   1.00 (1.00-1.00)",
        "longer  3.00 (3.00-3.00)",
    ]


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(["--url", "http://127.0.0.1:1", *words])


async def run(server: httpx.AsyncBaseTransport, *words: str) -> int:
    return await bench.measured(arguments(*words), server, Ticking())


async def test_a_scenario_prints_its_figures_and_writes_its_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    words = ("--scenario", "burst", "--requests", "2", "--prompt-tokens", "9", "--rounds", "3", "--json", str(file))
    assert await run(Scripted(), *words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "burst: 2 requests, 9 prompt tokens, 3 rounds"
    assert printed[3].startswith("last / one prompt")
    written = json.loads(file.read_text(encoding="utf-8"))
    assert len(written["rounds"]) == 3
    assert written["servers"]["ours"]["build"] == "b1-x"
    assert written["flags"]["scenario"] == "burst"


@pytest.mark.parametrize(
    ("server", "scenario", "cause"),
    [
        (Scripted(metrics=False), "burst", "start it with --metrics"),
        (Scripted(refuse=100), "long-prompt", "status 400: too long"),
        (Scripted(endless=3), "long-prompt", "a stream ended before the long prompt was read"),
    ],
)
async def test_a_scenario_without_figures_says_why(
    server: Scripted, scenario: str, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(server, "--scenario", scenario, "--rounds", "1", "--prompt-tokens", "100") == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert cause in told.err


async def test_a_server_that_cannot_tokenize_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(404 if request.url.path == "/tokenize" else 200, json={})

    assert await run(httpx.MockTransport(answer), "--scenario", "burst", "--rounds", "1") == 1
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--against", "http://127.0.0.1:2"), ("--api", "openai")])
async def test_a_scenario_measures_one_server_by_its_own_api(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(Scripted(), "--scenario", "burst", *words) == 1
    assert "measures one server, by llama-server's API" in capsys.readouterr().err


class Counting:
    """A server with tick counters: a tick a generated token, a hundredth of a second each."""

    def __init__(self, *, counters: bool = True) -> None:
        self.ticks = itertools.count()
        self.counters = counters

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await receive()
        text, path = "{}", scope["path"]
        if path == "/metrics":
            ticks = next(self.ticks) * 100
            text = (
                f"stoker:ticks_total {ticks}\nstoker:tick_seconds_total {ticks / 100}\n"
                f"stoker:tick_lag_seconds_total {ticks / 1000}\n"
            )
            text = text if self.counters else ""
        elif path == "/completion":
            frames = [{"content": "a", "tokens": [1], "tokens_predicted": n} for n in (1, 2)]
            text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})


async def test_overhead_tells_what_the_turns_cost_outside_ticks(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--scenario", "overhead", "--classes", "list", "--concurrency", "1,2", "--rounds", "2")
    assert await run(httpx.ASGITransport(Counting()), *words) == 0
    one, two, *notes = capsys.readouterr().out.splitlines()
    assert one.startswith("overhead at 1: 100 ticks of 10.00 ms; outside ticks ")
    assert "the device waited 1.000 ms (10.0 %)" in one
    assert "; a token " in one
    assert two.startswith("overhead at 2: ")
    assert not [note for note in notes if not note.startswith("note: ")]


async def test_overhead_of_a_server_without_counters_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--scenario", "overhead", "--classes", "list", "--concurrency", "1", "--rounds", "1")
    assert await run(httpx.ASGITransport(Counting(counters=False)), *words) == 1
    assert "overhead at 1: unknown, the server has no tick counters (--metrics)" in capsys.readouterr().out
