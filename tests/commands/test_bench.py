"""The benchmark's statistics are right, and a run against scripted servers says what they did."""

import argparse
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoker.commands import bench, bench_report
from stoker.commands.bench_client import Sample, Tally, measure, text_of
from stoker.commands.bench_plan import CLASSES, Arm, Ask, Turn, fresh, prompts, read_book, request, turns
from stoker.commands.bench_run import Block, Done
from stoker.commands.bench_stats import Overhead, Spread, metric_values, overhead, percentile, ratios, spread

OURS, THEIRS = Arm("ours", "http://127.0.0.1:1"), Arm("theirs", "http://127.0.0.1:2", "openai", "m")


class Ticking:
    """A clock that moves on by one second each time it is read."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        self.at += 1.0
        return self.at


# --- statistics


def test_percentiles_lie_between_neighbours() -> None:
    series = [4.0, 1.0, 3.0, 2.0]
    assert percentile(series, 0.5) == 2.5
    assert percentile(series, 0.0) == 1.0
    assert percentile(series, 1.0) == 4.0
    assert percentile(series, 0.1) == pytest.approx(1.3)
    assert percentile([7.0], 0.9) == 7.0


def test_a_spread_is_relative_to_the_median() -> None:
    found = spread([10.0, 10.0, 10.0, 10.0, 20.0])
    assert found is not None
    assert found == Spread(10.0, 10.0, 16.0, 5)
    assert found.relative == pytest.approx(0.6)
    assert spread([]) is None
    assert Spread(0.0, 0.0, 0.0, 1).relative == 0.0


def test_ratios_are_taken_pair_by_pair() -> None:
    assert ratios({"a": 2.0, "b": 9.0, "c": 5.0}, {"a": 1.0, "b": 3.0}) == [2.0, 3.0]


def test_overhead_is_what_the_ticks_do_not_explain() -> None:
    before = {"stoker:ticks_total": 10.0, "stoker:tick_seconds_total": 1.0, "stoker:tick_lag_seconds_total": 0.1}
    after = {"stoker:ticks_total": 110.0, "stoker:tick_seconds_total": 5.0, "stoker:tick_lag_seconds_total": 0.14}
    cost = overhead(before, after, busy=4.1)
    assert cost is not None
    assert cost.tick == pytest.approx(0.04)
    assert cost.outside == pytest.approx(0.001)
    assert cost.lag == pytest.approx(0.0004)
    assert overhead({}, after, 4.1) is None
    assert overhead(before, before, 4.1) is None


def test_metric_values_skip_comments_and_labels() -> None:
    text = '# HELP a b\n# TYPE a counter\na 3\nb{position="0"} 4\nstoker:c 1.5e+03\n\n'
    assert metric_values(text) == {"a": 3.0, "stoker:c": 1500.0}


# --- the plan


def test_arms_alternate_abba_and_warm_ups_come_first() -> None:
    planned = list(turns((OURS, THEIRS), ("code", "prose"), 1, rounds=2, warm_ups=1))
    order = [(turn.round, turn.group, turn.arm.name) for turn in planned]
    assert order[:4] == [(-1, "code", "theirs"), (-1, "code", "ours"), (-1, "prose", "ours"), (-1, "prose", "theirs")]
    assert [name for _, group, name in order if group == "code"] == [
        "theirs",
        "ours",
        "ours",
        "theirs",
        "theirs",
        "ours",
    ]
    assert [turn.warm_up for turn in planned] == [True] * 4 + [False] * 8


@pytest.mark.parametrize("group", CLASSES)
def test_every_class_has_a_few_prompts_of_its_own(group: str) -> None:
    known = prompts(group)
    assert len(set(known)) == len(known) >= 3


def test_both_arms_of_a_pair_get_the_same_prompts_and_no_prompt_comes_twice() -> None:
    planned = [turn for count in (1, 4) for turn in turns((OURS, THEIRS), ("code",), count, 6, 1)]
    asked = {
        arm: [fresh(t, i) for t in planned if t.arm is arm for i in range(t.concurrency)] for arm in (OURS, THEIRS)
    }
    assert sorted(asked[OURS]) == sorted(asked[THEIRS])
    assert len(set(asked[OURS])) == len(asked[OURS])


def test_requests_speak_the_arms_api() -> None:
    ask = Ask(predict=9, temperature=0.5)
    path, body = request(OURS, "code", "x", ask)
    assert (path, body["prompt"], body["n_predict"], body["ignore_eos"]) == ("/completion", "x", 9, True)
    path, body = request(THEIRS, "code", "x", ask)
    assert (path, body["max_tokens"], body["model"]) == ("/v1/completions", 9, "m")
    assert body["stream_options"] == {"include_usage": True}
    path, body = request(OURS, "chat", "x", ask)
    assert (path, body["messages"][0]["content"]) == ("/v1/chat/completions", "x")
    assert "model" not in body


# --- one request


def test_a_native_stream_is_stamped_and_counted() -> None:
    tally = Tally(started=10.0)
    tally.frame({"content": "", "tokens": [0], "prompt_progress": {}, "tokens_predicted": 0}, at=10.5)
    tally.frame({"content": " a", "tokens": [5], "tokens_predicted": 1}, at=11.0)
    tally.frame({"content": "", "tokens": [6], "tokens_predicted": 2}, at=12.0)
    timings = {"draft_n": 4, "draft_n_accepted": 3, "draft_rounds": 2}
    tally.frame({"content": "", "tokens": [], "stop": True, "tokens_predicted": 3, "timings": timings}, at=12.0)
    found = tally.sample()
    assert found == Sample(10.0, 11.0, 12.0, 3, " a", 4, 3, 2, stamps=(11.0, 12.0))
    assert (found.ttft, found.wall, found.decode) == (1.0, 2.0, 2.0)


def test_an_openai_stream_is_counted_by_usage_and_else_by_its_chunks() -> None:
    def streamed(*, usage: bool) -> Sample:
        tally = Tally(0.0)
        tally.frame({"choices": [{"delta": {"role": "assistant", "content": None}}]}, 1.0)
        tally.frame({"choices": [{"delta": {"content": "two tokens"}}]}, 2.0)
        tally.frame({"choices": [{"delta": {"reasoning_content": "x"}}]}, 3.0)
        if usage:
            tally.frame({"choices": [], "usage": {"completion_tokens": 3}}, 4.0)
        return tally.sample()

    assert (streamed(usage=True).tokens, streamed(usage=True).ttft) == (3, 2.0)
    assert streamed(usage=False).tokens == 2


def test_text_is_found_in_every_form() -> None:
    assert text_of({"content": "a"}) == "a"
    assert text_of({"choices": [{"text": "a"}, {"text": "b"}]}) == "ab"
    assert text_of({"choices": [{"delta": {"reasoning": "r"}}]}) == "r"
    assert text_of({"choices": []}) == ""


def test_a_lump_has_no_decode_rate() -> None:
    assert Sample(0.0, 2.0, 2.0, 5).decode is None
    assert Sample(0.0, 2.0, 3.0, 1).decode is None
    assert Sample(0.0).decode is None
    assert (Sample(0.0).ttft, Sample(0.0).wall) == (None, None)


@pytest.mark.parametrize(
    ("response", "failure"),
    [
        (httpx.Response(500, text="broken"), "status 500: broken"),
        (httpx.Response(200, text='data: {"error": {"message": "no"}}\n\n'), "{'message': 'no'}"),
        (httpx.Response(200, text="data: {\n\n"), "JSONDecodeError"),
        (httpx.Response(200, text=": ping\n\ndata: [DONE]\n\n"), "no token came"),
    ],
)
async def test_what_goes_wrong_is_the_samples_failure(response: httpx.Response, failure: str) -> None:
    transport = httpx.MockTransport(lambda _: response)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
        found = await measure(client, "/completion", {}, Ticking())
    assert failure in found.failure


async def test_a_refused_connection_is_a_failure() -> None:
    def refuse(asked: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=asked)

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse), base_url="http://127.0.0.1:1") as client:
        assert (await measure(client, "/completion", {}, Ticking())).failure == "ConnectError: refused"


# --- the report


def done(arm: Arm, index: int, rate: float, group: str = "code", text: str = "t") -> Done:
    """A turn of one stream: first token after 1 s, then 10 tokens at `rate`."""
    sample = Sample(0.0, 1.0, 1.0 + 10 / rate, 11, text, drafted=4, accepted=2, rounds=2)
    return Done(Turn(arm, group, 1, index), (sample,))


def test_a_row_has_medians_and_the_ratio_of_pairs() -> None:
    measured = [done(OURS, index, 20.0 * rate) for index, rate in enumerate((1, 2, 4))]
    measured += [
        done(THEIRS, index, 10.0 * rate, text="u" if rate == 4 else "t") for index, rate in enumerate((1, 2, 4))
    ]
    (row,) = bench_report.rows([Block(1, tuple(measured), None, 0)])
    assert row.arms["ours"].decode == Spread(40.0, pytest.approx(24.0), pytest.approx(72.0), 3)  # type: ignore[arg-type]
    assert row.arms["theirs"].decode is not None
    assert row.arms["theirs"].decode.median == 20.0
    assert row.ratio["decode"] == Spread(2.0, 2.0, 2.0, 3)
    assert row.ratio["ttft"] == Spread(1.0, 1.0, 1.0, 3)
    assert row.equal_texts == (2, 3)
    assert (row.arms["ours"].drafted, row.arms["ours"].accepted) == (12, 6)


def test_an_unpaired_turn_counts_for_its_arm_only() -> None:
    measured = (done(OURS, 0, 20.0), done(THEIRS, 0, 10.0), done(OURS, 1, 99.0))
    (row,) = bench_report.rows([Block(1, measured, None, 0)])
    assert row.ratio["decode"] == Spread(2.0, 2.0, 2.0, 1)


def test_classes_are_also_taken_together() -> None:
    measured = (done(OURS, 0, 10.0), done(OURS, 0, 20.0, "prose"))
    found = bench_report.rows([Block(1, measured, None, 0)])
    assert [(row.group, row.arms["ours"].decode and row.arms["ours"].decode.median) for row in found] == [
        ("code", 10.0),
        ("prose", 20.0),
        ("all", 15.0),
    ]
    assert found[0].ratio == {}


def test_together_streams_share_one_wall_clock() -> None:
    samples = (Sample(0.0, 1.0, 5.0, 10), Sample(1.0, 2.0, 6.0, 20))
    turn = Done(Turn(OURS, "code", 2, 0), samples)
    assert (turn.wall, turn.aggregate) == (6.0, 5.0)
    assert Done(turn.turn, (*samples, Sample(0.0, failure="x"))).aggregate is None


def test_what_the_slowest_stream_does_alone_is_not_what_all_streams_bring_together() -> None:
    quick = Sample(0.0, 1.0, 2.0, 10, stamps=(1.0, 2.0))
    slow = Sample(0.0, 1.0, 8.0, 8, stamps=(1.0, 2.0, 4.0, 8.0))
    turn = Done(Turn(OURS, "code", 2, 0), (quick, slow))
    assert (turn.busy, turn.aggregate) == ((10 + 4) / 2.0, 18 / 8.0)
    assert Done(turn.turn, (quick, Sample(0.0, failure="x"))).busy is None


def test_a_stream_is_busy_until_its_last_request_has_ended() -> None:
    first, second = Sample(0.0, 1.0, 2.0, 4, stamps=(1.0, 2.0)), Sample(2.0, 3.0, 4.0, 4, stamps=(3.0, 4.0))
    slow = [Sample(0.0, 1.0, 5.0, 5, stamps=(5.0,)), Sample(5.0, 6.0, 10.0, 2, stamps=(6.0, 10.0))]
    turn = Done(Turn(OURS, "code", 2, 0, each=2), (first, second, *slow))
    assert turn.busy == 8 / 4.0
    assert Done(turn.turn, ()).wall == 0.0


def test_untrustworthy_rows_are_noted() -> None:
    calm = (done(OURS, 0, 10.0), done(OURS, 1, 10.1))
    wild = (done(OURS, 0, 10.0), done(OURS, 1, 20.0), done(THEIRS, 0, 10.0), done(THEIRS, 1, 10.0))
    broken = Done(Turn(THEIRS, "code", 1, 2), (Sample(0.0, failure="status 500"),))

    def said(*measured: Done, skipped: int = 0) -> list[str]:
        blocks = [Block(1, measured, None, skipped)]
        return bench_report.notes(bench_report.rows(blocks), blocks)

    assert said(*calm) == []
    assert said(*wild) == [
        "code at 1, ours: decode spreads over 53 % of the median",
        "code at 1: the ratio spreads over 53 % of its median",
    ]
    assert "code at 1, theirs: 1 requests failed" in said(*wild, broken)
    assert "at 1: status 500" in said(*wild, broken)
    assert "code at 1: the arms generated different numbers of tokens (11, 22)" in said(*calm, wild[2])
    assert said(*calm, skipped=3) == ["at 1: 3 turns left out, the time was up"]


def test_the_table_has_a_line_for_each_arm() -> None:
    cost = Overhead(ticks=100, tick_seconds=4.0, lag_seconds=0.04, busy=4.1)
    blocks = [Block(1, (done(OURS, 0, 20.0), done(THEIRS, 0, 10.0)), cost, 0)]
    head, ours, theirs, ticks = bench_report.table(bench_report.rows(blocks), blocks).splitlines()
    assert head.split("  ")[0] == "streams"
    assert "20.0 (20.0-20.0)" in ours
    assert "1000.0 (1000.0-1000.0)" in ours
    assert "2/4, 2.00 tokens a round" in ours
    assert "2.000 (2.000-2.000) a stream" in ours
    assert "10.0 (10.0-10.0)" in theirs
    assert ticks == (
        "overhead at 1: 100 ticks of 40.00 ms; outside ticks 1.000 ms a tick (2.5 %), "
        "of it the device waited 0.400 ms (1.0 %)"
    )


# --- a run


class Servers:
    """Two scripted servers behind one transport, told apart by their port: llama-server's API and OpenAI's."""

    def __init__(self, *, metrics: bool = True, broken: bool = False) -> None:
        self.asked: list[tuple[int, str, dict[str, Any]]] = []
        self.metrics, self.broken = metrics, broken

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        content = (await receive())["body"]
        body = json.loads(content) if content else {}
        port, path = scope["server"][1], scope["path"]
        self.asked.append((port, path, body))
        status, text = self.answer(path, body)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        if path == "/metrics":
            ticks = sum(asked[0] == 1 and asked[1] in ("/completion", "/v1/chat/completions") for asked in self.asked)
            names = ("ticks_total", "tick_seconds_total", "tick_lag_seconds_total")
            return (200, "".join(f"stoker:{name} {ticks}\n" for name in names)) if self.metrics else (501, "")
        if path in ("/health", "/props", "/v1/models"):
            return 200, json.dumps({"build_info": "b1-x", "model_path": "x.gguf", "data": [{"id": "m"}]})
        if self.broken:
            return 500, "out of order"
        if path == "/completion":
            frames = [
                {"content": f"{i}", "tokens": [i], "tokens_predicted": i} for i in range(1, body["n_predict"] + 1)
            ]
            return 200, _sse(
                *frames, {"content": "", "tokens": [], "stop": True, "tokens_predicted": body["n_predict"]}
            )
        chunks = [{"choices": [{"text": "a"} if path == "/v1/completions" else {"delta": {"content": "a"}}]}] * 3
        return 200, _sse(*chunks, {"choices": [], "usage": {"completion_tokens": 4}}) + "data: [DONE]\n\n"


def _sse(*frames: dict[str, Any]) -> str:
    return "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(["--url", "http://127.0.0.1:1", *words])


async def test_a_run_against_two_servers_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = Servers()
    file = tmp_path / "bench.json"
    args = arguments(
        "--against", "http://127.0.0.1:2", "--against-api", "openai", "--model", "m", "--classes", "code,chat",
        "--concurrency", "1,2", "--rounds", "2", "--predict", "4", "--json", str(file), "--api-key", "secret",
    )  # fmt: skip
    assert await bench.measured(args, httpx.ASGITransport(servers), Ticking()) == 0
    printed = capsys.readouterr().out
    assert "overhead at 1" in printed
    assert "all at 2: " in printed
    written = json.loads(file.read_text(encoding="utf-8"))
    assert [(row["concurrency"], row["group"]) for row in written["rows"]] == [
        (1, "code"), (1, "chat"), (1, "all"), (2, "code"), (2, "chat"), (2, "all"),
    ]  # fmt: skip
    assert len(written["turns"]) == 2 * 2 * 2 * 2
    assert written["servers"]["ours"] == {"url": args.url, "api": "llama", "build": "b1-x", "model": "x.gguf"}
    assert written["servers"]["theirs"]["model"] == "m"
    assert written["machine"]["cores"] >= 1
    assert written["flags"]["predict"] == 4
    assert "secret" not in file.read_text(encoding="utf-8")
    first = written["turns"][0]["samples"][0]
    assert (first["tokens"], first["ended"] - first["first"]) == (4, 4.0)
    generated = [asked for asked in servers.asked if asked[2]]
    assert {(port, path) for port, path, _ in generated} == {
        (1, "/completion"), (1, "/v1/chat/completions"), (2, "/v1/completions"), (2, "/v1/chat/completions"),
    }  # fmt: skip
    assert len(generated) == (1 + 2) * 3 * 2 * 2


async def test_a_run_alone_has_no_ratio_and_no_overhead_without_counters(capsys: pytest.CaptureFixture[str]) -> None:
    args = arguments("--classes", "list", "--concurrency", "1", "--rounds", "2", "--predict", "3")
    assert await bench.measured(args, httpx.ASGITransport(Servers(metrics=False)), Ticking()) == 0
    printed = capsys.readouterr().out
    assert "overhead" not in printed
    assert "1.0 (1.0-1.0)" not in printed.splitlines()[0]
    assert len(printed.splitlines()) == 2


async def test_time_that_is_up_stops_the_turns(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--classes", "list", "--concurrency", "1", "--rounds", "50", "--predict", "3", "--max-seconds", "30")
    assert await bench.measured(arguments(*words), httpx.ASGITransport(Servers()), Ticking()) == 0
    assert "turns left out, the time was up" in capsys.readouterr().out


async def test_failed_requests_fail_the_run_and_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    args = arguments("--classes", "list", "--concurrency", "1", "--rounds", "1")
    assert await bench.measured(args, httpx.ASGITransport(Servers(broken=True)), Ticking()) == 1
    printed = capsys.readouterr().out
    assert "note: list at 1, ours: 1 requests failed" in printed
    assert "note: at 1: status 500: out of order" in printed


async def test_a_server_that_goes_away_ends_in_failures_and_not_in_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(asked: httpx.Request) -> httpx.Response:
        if asked.url.path in ("/health", "/props"):
            return httpx.Response(200, json={})
        raise httpx.ConnectError("gone", request=asked)

    args = arguments("--classes", "list", "--concurrency", "1", "--rounds", "1")
    assert await bench.measured(args, httpx.MockTransport(answer), Ticking()) == 1
    assert "note: at 1: ConnectError: gone" in capsys.readouterr().out


async def test_a_server_that_is_not_ready_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(503))
    assert await bench.measured(arguments(), transport, Ticking()) == 1
    assert "http://127.0.0.1:1/health answers 503, not 200" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run(arguments()) == 1
    assert "no server at http://127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--concurrency", "0"), ("--prompts", "nowhere.jsonl"), ("--predict", "many")])
def test_bad_arguments_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        arguments(*words)


async def test_an_unknown_class_is_named_with_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert await bench.measured(arguments("--classes", "poems,code")) == 1
    assert "unknown class poems; known: code," in capsys.readouterr().err


def test_your_own_prompts_go_to_the_chat_route_as_they_are(tmp_path: Path) -> None:
    book = read_book(
        ['{"class": "sql", "prompt": "Select all.", "max_tokens": 9}', '{"class": "sql", "prompt": "Count."}']
    )
    assert book == {"sql": ["Select all.", "Count."]}
    turn = Turn(OURS, "sql", 1, 1)
    assert fresh(turn, 0, book) == "Count."
    path, body = request(OURS, "sql", "Count.", Ask(8, 0.7, book, seed=3))
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "Count."}]
    assert (body["seed"], body["temperature"]) == (3, 0.7)
    with pytest.raises(ValueError, match="line 2"):
        read_book(['{"class": "a", "prompt": "b"}', '{"class": "a"}'])
