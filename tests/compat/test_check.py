"""The checker finds nothing in the recordings themselves, and finds every change that is made to them."""

import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn

from compat import check, library, table, texts
from compat.answer import Answer
from compat.gap import gap
from compat.library import Case
from compat.verdict import Outcome, Report, judge
from recorded import Change, RecordedApp, only

IGNORE = frozenset({"transfer-encoding"})
FEATURES = library.features()


def unchanged(_: Case, answer: Answer) -> Answer:
    return answer


def client(app: RecordedApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def checked(change: Change = unchanged, profile: str = "base", *, declared: bool = False) -> Report:
    """Replay all cases of a profile against the recordings with one change."""
    cases = library.cases(profile)
    async with client(RecordedApp(cases, change)) as http:
        replays = await check.replay(http, cases, IGNORE)
    return check.report(replays, library.divergences() if declared else [], complete=declared)


def shown(report: Report) -> set[tuple[str, str, str]]:
    return {
        (outcome.case, finding.difference.path, finding.declared)
        for outcome in report.outcomes
        for finding in outcome.findings
    }


# --- the checker's own test


@pytest.mark.parametrize("profile", library.PROFILES)
async def test_the_recordings_replayed_have_no_difference(profile: str) -> None:
    report = await checked(profile=profile)
    assert shown(report) == set()
    assert {outcome.verdict for outcome in report.outcomes} == {"equal"}
    assert report.ok
    assert report.texts_agree == report.texts_seen


async def test_the_cases_run_in_their_order_and_as_often_as_they_say() -> None:
    cases = library.cases("base")
    app = RecordedApp(cases)
    async with client(app) as http:
        await check.replay(http, cases, IGNORE)
    assert [key[1] for key in app.asked] == [case.request["path"] for case in cases for _ in range(case.context.repeat)]
    assert len(app.asked) == len(cases) + 1


async def test_an_ordinary_client_may_replay_too() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        wanted = next(case for case in cases if case.request["path"] == request.url.path)
        return httpx.Response(200, headers=dict(wanted.expected.headers), json=wanted.expected.body)

    cases = [case for case in library.cases("base") if case.name in ("health", "tokenize")]
    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://test") as http:
        replays = await check.replay(http, cases)
    assert [one.comparison.differences for one in replays if one.comparison] == [(), ()]


# --- changes


async def test_a_status_is_seen_and_fails_the_check() -> None:
    report = await checked(only("completion_bad_type", lambda answer: replace(answer, status=422)))
    assert shown(report) == {("base/completion_bad_type", "$status", "")}
    assert not report.ok
    printed = table.lines(report, with_text=False)
    assert "    status  $status: expected 400, got 422" in printed
    assert "1 different" in printed


async def test_a_header_is_seen() -> None:
    def change(answer: Answer) -> Answer:
        return replace(answer, headers={**answer.headers, "server": "uvicorn"})

    report = await checked(only("chat_stream", change))
    assert shown(report) == {("base/chat_stream", "$headers.server", "")}


async def test_the_order_of_keys_is_seen() -> None:
    def change(answer: Answer) -> Answer:
        assert isinstance(answer.body, dict)
        return replace(answer, body=dict(sorted(answer.body.items())))

    report = await checked(only("chat", change))
    assert shown(report) == {("base/chat", "$", "")}


async def test_a_frame_too_few_is_seen() -> None:
    report = await checked(only("v1_completions_stream", lambda answer: replace(answer, frames=answer.frames[:-1])))
    assert shown(report) == {("base/v1_completions_stream", "$frames", "")}


async def test_a_server_that_hangs_up_fails_that_case_only() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            raise httpx.RemoteProtocolError("hung up", request=request)
        return httpx.Response(200, headers=dict(cases[1].expected.headers), json={"tokens": []})

    cases = [case for case in library.cases("base") if case.name in ("health", "tokenize_empty")]
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://test") as http:
        report = check.report(await check.replay(http, cases), [], complete=False)
    assert [outcome.verdict for outcome in report.outcomes] == ["failed", "equal"]
    assert not report.ok
    assert "RemoteProtocolError: hung up" in table.lines(report, with_text=False)


# --- declared divergences


def deeply(answer: Answer, work: Any) -> Answer:
    body, frames = copy.deepcopy(answer.body), copy.deepcopy(answer.frames)
    work(body, [frame.data for frame in frames])
    return replace(answer, body=body, frames=frames)


async def test_a_drawn_seed_is_declared_and_a_changed_given_seed_is_not() -> None:
    def drawn(body: Any, _: Any) -> None:
        body["generation_settings"]["seed"] = 12345

    report = await checked(only("completion", lambda answer: deeply(answer, drawn)), declared=True)
    assert shown(report) == {("base/completion", "$.generation_settings.seed", "seed-as-drawn")}
    assert {outcome.verdict for outcome in report.outcomes} == {"equal", "declared"}

    def text(body: Any, _: Any) -> None:
        body["generation_settings"]["seed"] = "12345"

    report = await checked(only("completion", lambda answer: deeply(answer, text)), declared=True)
    assert shown(report) == {("base/completion", "$.generation_settings.seed", "")}


def finish_timings(_: Any, frames: list[Any]) -> None:
    frames[-3]["timings"] = copy.deepcopy(frames[-2]["timings"])


async def test_timings_on_the_finish_chunk_are_declared_and_on_a_content_chunk_are_not() -> None:
    report = await checked(only("chat_stream_usage", lambda answer: deeply(answer, finish_timings)), declared=True)
    assert shown(report) == {("base/chat_stream_usage", "$finish[0].timings", "chat-usage-timings")}

    def content(_: Any, frames: list[Any]) -> None:
        frames[1]["timings"] = frames[-2]["timings"]

    report = await checked(only("chat_stream_usage", lambda answer: deeply(answer, content)), declared=True)
    assert shown(report) == {("base/chat_stream_usage", "$content[0].timings", "")}


async def test_draft_keys_may_leave_the_usage_chunk_only() -> None:
    def drafted(_: Any, frames: list[Any]) -> None:
        finish_timings(_, frames)
        del frames[-2]["timings"]["draft_n"]
        del frames[-2]["timings"]["draft_n_accepted"]

    change = only("draft_chat_stream_usage", lambda answer: deeply(answer, drafted))
    report = await checked(change, "draft", declared=True)
    assert {one[1:] for one in shown(report)} == {
        ("$finish[0].timings", "chat-usage-timings"),
        ("$usage[0].timings.draft_n", "chat-usage-timings"),
        ("$usage[0].timings.draft_n_accepted", "chat-usage-timings"),
    }

    def lost(_: Any, frames: list[Any]) -> None:
        del frames[-2]["timings"]["draft_n"]

    report = await checked(only("draft_chat_stream", lambda answer: deeply(answer, lost)), "draft", declared=True)
    assert shown(report) == {("draft/draft_chat_stream", "$finish[0].timings.draft_n", "")}


async def test_our_own_metrics_are_declared_and_foreign_ones_are_not() -> None:
    def more(name: str) -> Change:
        line = f"# HELP {name} Ticks\n# TYPE {name} counter\n{name} 3\n"
        return only("metrics", lambda answer: replace(answer, text=answer.text + line))

    report = await checked(more("stoker:ticks_total"), declared=True)
    assert shown(report) == {("base/metrics", "$metrics.stoker:ticks_total", "metrics-own-names")}
    report = await checked(more("python:gc_total"), declared=True)
    assert shown(report) == {("base/metrics", "$metrics.python:gc_total", "")}


PAIR = {"draft_rounds": 5, "draft_kind": "draft-model"}


async def test_rounds_and_kind_are_declared_beside_the_draft_pair_and_nowhere_else() -> None:
    def whole(body: Any, _: Any) -> None:
        body["timings"].update(PAIR)

    for profile, case in (("draft", "draft_chat"), ("ngram", "ngram_completion")):
        report = await checked(only(case, lambda answer: deeply(answer, whole)), profile, declared=True)
        assert shown(report) == {(f"{profile}/{case}", f"$.timings.{key}", "draft-round-keys") for key in PAIR}

    def content(_: Any, frames: list[Any]) -> None:
        frames[1]["timings"] = frames[-1]["timings"] | PAIR

    report = await checked(
        only("draft_completion_stream", lambda answer: deeply(answer, content)), "draft", declared=True
    )
    assert {one[1:] for one in shown(report)} == {
        ("$content[1].timings", ""),
        ("$content[1].timings.predicted_n", ""),
    }
    report = await checked(only("completion", lambda answer: deeply(answer, whole)), declared=True)
    assert {one[2] for one in shown(report)} == {""}


async def test_draft_keys_of_a_slot_are_declared_and_other_keys_are_not() -> None:
    def more(**keys: Any) -> Change:
        return only("draft_slots", lambda answer: deeply(answer, lambda body, _: body[0].update(keys)))

    report = await checked(more(draft_kind="draft-model", draft_off=None), "draft", declared=True)
    assert {one[1:] for one in shown(report)} == {
        ("$[0].draft_kind", "slots-draft-keys"),
        ("$[0].draft_off", "slots-draft-keys"),
    }
    report = await checked(more(draft_width=3), "draft", declared=True)
    assert shown(report) == {("draft/draft_slots", "$[0].draft_width", "")}


async def test_our_own_object_in_props_is_declared_and_other_keys_are_not() -> None:
    def more(**keys: Any) -> Change:
        return only("props", lambda answer: deeply(answer, lambda body, _: body.update(keys)))

    assert shown(await checked(more(stoker={"draft_kind": None}), declared=True)) == {
        ("base/props", "$.stoker", "props-own-object")
    }
    assert shown(await checked(more(smelter={}), declared=True)) == {("base/props", "$.smelter", "")}


async def test_the_text_of_a_schemas_grammar_is_declared_and_that_of_a_grammar_is_not() -> None:
    def written(case: str, text: str) -> Change:
        return only(
            case, lambda answer: deeply(answer, lambda body, _: body["generation_settings"].update(grammar=text))
        )

    ours = '%llguidance {"no_forcing": true}\nstart: %json {"type": "object"}'
    path = "$.generation_settings.grammar"
    case = "completion_json_schema"
    assert shown(await checked(written(case, ours), declared=True)) == {(f"base/{case}", path, "grammar-by-llguidance")}
    assert shown(await checked(written(case, "root ::= x"), declared=True)) == {(f"base/{case}", path, "")}
    assert shown(await checked(written("completion_grammar", ours), declared=True)) == {
        ("base/completion_grammar", path, "")
    }


async def test_a_divergence_that_no_longer_occurs_is_stale_in_a_complete_run() -> None:
    report = await checked(declared=True)
    assert set(report.stale) == {
        "seed-as-drawn",
        "chat-usage-timings",
        "metrics-own-names",
        "props-own-object",
        "grammar-by-llguidance",
    }
    assert not report.ok
    assert "stale: no case shows the declared divergence seed-as-drawn" in table.lines(report, with_text=False)
    seen = [(case, None, "") for case in library.cases("base")]
    assert judge(seen, library.divergences(), complete=False).stale == ()


async def test_a_divergence_is_not_due_where_no_case_concerns_it() -> None:
    assert (await checked(profile="off", declared=True)).ok


# --- which cases run


def test_cases_whose_features_are_not_built_are_left_out() -> None:
    names = {case.name for case in library.cases("base", FEATURES)}
    assert "completion" in names
    unbuilt = {
        **FEATURES,
        "grammar": replace(FEATURES["grammar"], built=False),
        "embeddings": replace(FEATURES["embeddings"], built=False),
    }
    assert library.cases("embeddings", FEATURES)
    assert library.cases("embeddings", unbuilt) == []
    assert "completion_grammar" in names
    assert "completion_grammar" not in {case.name for case in library.cases("base", unbuilt)}


def test_greedy_cases_are_those_whose_text_is_fixed() -> None:
    greedy = {case.name for case in library.cases("base") if case.greedy}
    assert {"completion", "completion_negative_temp", "chat_stream"} <= greedy
    random = {"completion_sampler_settings", "completion_bad_samplers", "completion_t_max_predict_ms", "health"}
    assert greedy.isdisjoint(random)


# --- texts


async def test_agreement_is_counted_in_the_servers_own_tokens() -> None:
    case = next(case for case in library.cases("base") if case.name == "completion")

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/tokenize":
            return httpx.Response(200, json={"tokens": list(json.loads(request.content)["content"])})
        body = {**case.expected.body, "content": " Paris.\n\nThe United Kingdom"}  # type: ignore[dict-item]
        return httpx.Response(200, headers=dict(case.expected.headers), json=body)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://test") as http:
        replays = await check.retell(http, await check.replay(http, [case]))
    report = check.report(replays, [], complete=False)
    told = report.outcomes[0].agreement
    assert told is not None
    assert told.first_divergence == len(" Paris.\n\nThe United ")
    assert (report.texts_agree, report.texts_seen, report.texts_ok) == (1, 1, True)
    assert "text agrees for 20 of 30 tokens" in table.lines(report, with_text=True)


def words(text: str) -> list[str]:
    return text.split()


async def asked_gap(name: str, got: str, probabilities: dict[str, float]) -> tuple[float | None, list[Any]]:
    """The gap at the divergence of a case, and the prompts that were sent to find it. Words stand for token ids."""
    case = next(case for case in library.cases("base") if case.name == name)
    prompts: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path == "/apply-template":
            return httpx.Response(200, json={"prompt": "templated"})
        prompts.append(body["prompt"])
        top = [{"id": token, "logprob": logprob} for token, logprob in probabilities.items()]
        return httpx.Response(200, json={"completion_probabilities": [{"top_logprobs": top}]})

    told = texts.agreement(texts.generated(case.expected) or "", got, words)
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://test") as http:
        return await gap(http, case, told, words), prompts


async def test_the_gap_is_asked_over_the_prompt_and_the_shared_tokens() -> None:
    found, prompts = await asked_gap("completion", " Paris.\n\nThe answer is", {"answer": -1.0, "United": -1.25})
    assert found == 0.25
    assert prompts == [["The capital of France is", "Paris.", "The"]]
    found, prompts = await asked_gap("completion_tokens_prompt", " London", {"London": -1.0, "Paris.": -1.5})
    assert (found, prompts) == (0.5, [[504, 3575, 282, 4649, 314]])
    found, prompts = await asked_gap("chat", "The four", {"four": -1.0, "three": -3.0})
    assert (found, prompts) == (2.0, [["templated", "The"]])


async def test_a_gap_that_cannot_be_told_is_none() -> None:
    assert (await asked_gap("completion", " London", {"London": -1.0}))[0] is None
    assert (await asked_gap("completion", " Paris.", {}))[0] is None
    assert (await asked_gap("completion", " Paris.\n\nThe United States has", {}))[0] is None
    assert (await asked_gap("responses", "Hi", {}))[0] is None


def test_the_table_shows_the_gap() -> None:
    told = texts.Agreement(False, 5, 8, "a", "b", gap=0.0625)
    line = table.lines(Report((Outcome("c", "r", "equal", greedy=True, agreement=told),), (), 0, 1), with_text=True)
    assert "text agrees for 5 of 8 tokens, TOO FEW, the two logits 0.062 apart: 'b'" in line


async def test_without_a_tokenizer_texts_are_counted_in_pieces() -> None:
    case = next(case for case in library.cases("base") if case.name == "completion")

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/tokenize":
            return httpx.Response(404, json={})
        body = {**case.expected.body, "content": " London is"}  # type: ignore[dict-item]
        return httpx.Response(200, headers=dict(case.expected.headers), json=body)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://test") as http:
        replays = await check.retell(http, await check.replay(http, [case]))
    report = check.report(replays, [], complete=False)
    assert (report.texts_agree, report.texts_seen, report.texts_ok) == (0, 1, False)
    assert "TOO FEW" in table.lines(report, with_text=True)


# --- the command, against a real socket on the loopback


@contextmanager
def listening(app: RecordedApp) -> Iterator[str]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", server_header=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


def test_the_command_passes_the_recordings_and_counts_chunked_headers_too(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(RecordedApp(library.cases("base"))) as url:
        assert check.main(["--url", url, "--all", "--original", "--text"]) == 0
        printed = capsys.readouterr().out
        assert "stoker-server -m {MODEL} --metrics --slots --props -np 2 -c 2048 --alias smollm2" in printed
        assert "100 cases: 100 equal, 0 declared, 0 different, 0 failed" in printed
        assert check.main(["--url", url]) == 1
        assert "stale" in capsys.readouterr().out


def test_the_command_prints_json_and_exits_1_on_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    app = RecordedApp(library.cases("base"), only("tokenize", lambda answer: replace(answer, status=500)))
    with listening(app) as url:
        assert check.main(["--url", url, "--case", "tokenize", "--case", "health", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert [(one["case"], one["verdict"]) for one in said["outcomes"]] == [
        ("base/health", "equal"),
        ("base/tokenize", "different"),
    ]
    assert said["outcomes"][1]["findings"][0]["difference"]["kind"] == "status"


def test_an_unknown_case_and_an_absent_server_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="no such case"):
        check.main(["--case", "nothing"])
    assert check.main(["--url", "http://127.0.0.1:1", "--case", "health"]) == 2
    assert "no server at http://127.0.0.1:1" in capsys.readouterr().err
