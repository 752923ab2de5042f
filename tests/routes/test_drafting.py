"""What speculation looks like at the edge: the request's object, timings, the log line, /slots, /props, /metrics."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from routes.fakes import Bench, bench, finished, frames, message, piece, progress, says
from stoker.core.counters import DraftOff, DraftSummary, Kind
from stoker.core.events import Finished, StopType, Tokens
from stoker.core.info import BudgetView, DraftVerdict, Standing, TickCost
from stoker.core.request import Request, Speculation
from stoker.options.drafting import Drafting
from stoker.routes.shape.metrics import metrics
from stoker.scheduler.views import SlotView, Totals

DRAFT = DraftSummary(Kind.PROMPT_LOOKUP, 10, 9, 8, 3)
NINE = [
    *("cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"),
    *("predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"),
]
DRAFT_KEYS = ["draft_n", "draft_n_accepted", "draft_rounds", "draft_kind"]
TEXT = {"prompt": "p"}
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
ROUTES = [
    ("/completion", TEXT),
    ("/completions", TEXT),
    ("/v1/completions", TEXT),
    ("/chat/completions", CHAT),
    ("/v1/chat/completions", CHAT),
]
EVERY_ROUTE = pytest.mark.parametrize(("path", "body"), ROUTES)


async def streamed_timings(made: Bench, path: str, body: dict[str, Any]) -> list[list[str]]:
    """The keys of each frame's timings, none for a frame without."""
    got = frames(await made.post(path, body | {"stream": True}))
    return [list(frame.get("timings", ())) for frame in got if frame != "[DONE]"]


# the request


@EVERY_ROUTE
async def test_every_generating_route_takes_the_object(path: str, body: dict[str, Any]) -> None:
    made = bench()
    await made.post(path, body | {"speculative": {"kind": "prompt-lookup", "n_max": 4}})
    await made.post(path, body)
    asked, silent = made.scheduler.requests
    assert asked.speculation == Speculation("prompt-lookup", 4, asked=True)
    assert silent.speculation == Speculation()


@EVERY_ROUTE
async def test_every_generating_route_refuses_a_wrong_one(path: str, body: dict[str, Any]) -> None:
    answer = await bench().post(path, body | {"speculative": {"kind": "magic"}})
    assert answer.status_code == 400
    assert message(answer).startswith("Field 'speculative.kind': Unknown kind of drafter: magic. Known are auto, none,")
    answer = await bench().post(path, body | {"speculative": 4})
    assert (answer.status_code, "type must be object" in message(answer)) == (400, True)


async def test_flat_fields_of_llama_server_are_ignored() -> None:
    made = bench()
    assert (await made.post("/completion", TEXT | {"speculative.n_max": 0})).status_code == 200
    assert made.scheduler.requests[0].speculation == Speculation()


# timings


@EVERY_ROUTE
async def test_the_draft_keys_follow_the_nine_in_their_order(path: str, body: dict[str, Any]) -> None:
    made = bench(says("a", "b", draft=DRAFT))
    whole = (await made.post(path, body)).json()
    assert list(whole["timings"]) == NINE + DRAFT_KEYS
    assert [whole["timings"][key] for key in DRAFT_KEYS] == [10, 8, 3, "prompt-lookup"]
    told = await streamed_timings(made, path, body)
    assert [keys for keys in told if keys] == [NINE + DRAFT_KEYS]
    assert told[-1]


@EVERY_ROUTE
async def test_an_undrafted_body_has_the_nine_keys_alone(path: str, body: dict[str, Any]) -> None:
    made = bench(says("a", draft_off=DraftOff.NO_DRAFTER))
    assert list((await made.post(path, body)).json()["timings"]) == NINE
    assert [keys for keys in await streamed_timings(made, path, body) if keys] == [NINE]


def stopped(request: Request) -> Any:
    yield progress(request)
    yield Tokens((piece("a", 1), piece("", 2, stops=True)))
    yield finished(request, "a", (7, 7), stop=StopType.WORD, stopping_word="b", draft=DRAFT)


@EVERY_ROUTE
async def test_a_middle_frame_has_nine_timings_whatever_it_is_asked(path: str, body: dict[str, Any]) -> None:
    told = await streamed_timings(bench(says("a", "b", draft=DRAFT)), path, body | {"timings_per_token": True})
    assert [keys for keys in told if keys] == [NINE, NINE, NINE + DRAFT_KEYS]
    told = await streamed_timings(bench(stopped), "/completion", TEXT)
    assert told == [[], NINE, NINE + DRAFT_KEYS]


async def test_the_usage_chunk_repeats_the_nine_only() -> None:
    for changes, last in (({"draft": DRAFT}, DRAFT_KEYS), ({"draft_off": DraftOff.SAMPLER}, ["draft_off"])):
        body = CHAT | {"stream_options": {"include_usage": True}, "speculative": {}}
        told = await streamed_timings(bench(says("a", **changes)), "/v1/chat/completions", body)
        assert told == [[], [], NINE + last, NINE]


@pytest.mark.parametrize("off", list(DraftOff))
@EVERY_ROUTE
async def test_the_reason_stands_in_timings_only_where_the_request_asked(
    path: str, body: dict[str, Any], off: DraftOff
) -> None:
    made = bench(says("a", draft_off=off))
    timings = (await made.post(path, body | {"speculative": {}})).json()["timings"]
    assert list(timings) == [*NINE, "draft_off"]
    assert timings["draft_off"] == off
    assert "draft_off" not in (await made.post(path, body)).json()["timings"]


async def test_a_request_that_asked_and_was_drafted_gets_no_reason() -> None:
    made = bench(says("a", draft=DRAFT))
    assert list((await made.post("/completion", TEXT | {"speculative": {}})).json()["timings"]) == NINE + DRAFT_KEYS


async def test_each_prompt_of_a_request_has_counters_of_its_own() -> None:
    def by_prompt(request: Request) -> Any:
        yield progress(request)
        draft = replace(DRAFT, rounds=4) if request.prompt[-1] == ord("b") else None
        yield finished(request, "x", draft=draft)

    one, other = (await bench(by_prompt).post("/completion", {"prompt": ["a", "b"]})).json()
    assert "draft_n" not in one["timings"]
    assert other["timings"]["draft_rounds"] == 4


async def test_verbose_says_the_same_in_both_places() -> None:
    made = bench(says("a", draft_off=DraftOff.BATCH))
    body = (await made.post("/v1/chat/completions", CHAT | {"verbose": True, "speculative": {}})).json()
    assert body["__verbose"]["timings"] == body["timings"]


# the log, /slots, /props, /metrics


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"draft": DRAFT, "rule": "sampler-match"},
            " draft=prompt-lookup rule=sampler-match rounds=3 proposed=10 tested=9 accepted=8",
        ),
        ({"draft": DRAFT}, " draft=prompt-lookup rounds=3 proposed=10 tested=9 accepted=8"),
        ({"draft_off": DraftOff.DOES_NOT_PAY}, " off=does_not_pay"),
        ({}, ""),
    ],
)
async def test_the_log_line_says_what_drafting_did(
    changes: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "stoker.requests"):
        await bench(says("a", **changes)).post("/completion", TEXT)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith(f" stop=limit{words}")


async def test_a_slot_shows_its_drafter_and_its_reason_at_the_end() -> None:
    made = bench(speculative_types="none,ngram-simple")
    paused = SlotView(0, task=3, busy=True, draft_kind=Kind.PROMPT_LOOKUP, draft_off=DraftOff.DOES_NOT_PAY)
    made.scheduler.views = [paused, SlotView(1)]
    used, unused = (await made.get("/slots")).json()
    assert list(used)[-2:] == ["draft_kind", "draft_off"]
    assert (used["draft_kind"], used["draft_off"]) == ("prompt-lookup", "does_not_pay")
    assert used["speculative"]
    assert unused == {"id": 1, "n_ctx": 1024, "speculative": True, "is_processing": False}


async def test_every_position_that_a_proposal_can_have_is_counted_once_a_round_has_run() -> None:
    name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
    made = bench(draft_most=3)
    assert name not in (await made.get("/metrics")).text
    made.scheduler.sums = Totals(rounds=1, accepted_by_position=(1,))
    lines = [line for line in (await made.get("/metrics")).text.splitlines() if line.startswith(name)]
    assert lines == [f'{name}{{position="{place}"}} {count}' for place, count in enumerate((1, 0, 0))]


async def test_settings_of_a_request_name_llama_servers_type_and_props_do_not() -> None:
    drafting = Drafting(kind=Kind.DRAFT_MODEL)
    made = bench(speculative_types=drafting.types, about=drafting.about())
    answer = (await made.post("/completion", TEXT)).json()
    assert answer["generation_settings"]["speculative.types"] == "none,draft-simple"
    props = (await made.get("/props")).json()
    assert props["default_generation_settings"]["params"]["speculative.types"] == "none"
    assert list(props)[-1] == "stoker"
    assert props["stoker"] == {
        "draft_kind": "draft-model",
        "accept_rule": "sampler-match",
        "draft_coupling": True,
        "exactness": {"wanted": "decided"},
    }


def test_metrics_have_the_totals_and_every_reason() -> None:
    sums = Totals(drafted=10, accepted=8, rounds=3, accepted_by_position=(3, 3, 2), draft_off={DraftOff.SAMPLER: 2})
    text = metrics(sums, sums)
    assert "llamacpp:spec_decode_num_draft_tokens_total 10\n" in text
    assert "llamacpp:spec_decode_num_accepted_tokens_total 8\n" in text
    assert "llamacpp:spec_decode_num_drafts_total 3\n" in text
    assert 'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 2\n' in text
    for reason in DraftOff:
        assert f'stoker:draft_off_total{{reason="{reason}"}} {2 if reason is DraftOff.SAMPLER else 0}\n' in text
    assert text.count("# TYPE stoker:draft_off_total counter\n") == 1


def test_an_end_knows_its_counters_and_nothing_else_does() -> None:
    fields = {name for name in Finished.__dataclass_fields__ if name.startswith("draft")}
    assert fields == {"draft", "draft_off"}
    assert not any("draft" in name for name in Tokens.__dataclass_fields__)


async def test_props_and_metrics_show_what_ticks_cost_and_what_the_budget_decided() -> None:
    verdict = DraftVerdict("draft-model", Standing.DECLINED, 0.8123456, 4, 7, (0.51234, 0.2))
    costs = (TickCost("target", 1, 8, 0.076), TickCost("draft-model", 1, 4, 0.2))
    view = BudgetView(costs, ((1, 30), (8, 4)), 12, (verdict,))
    made = bench(budget=lambda: view)
    shown = (await made.get("/props")).json()["stoker"]["budget"]
    assert shown == {
        "tick_ms": {"target": {"1x8": 76.0}, "draft-model": {"1x4": 200.0}},
        "ticks_by_width": {"1": 30, "8": 4},
        "declined": 12,
        "drafters": {
            "draft-model": {
                "standing": "declined",
                "gain": 0.812,
                "width": 4,
                "requests": 7,
                "acceptance": [0.5123, 0.2],
            }
        },
    }
    text = (await made.get("/metrics")).text
    assert 'stoker:tick_cost_seconds{drafters="target",rows="1",columns="8"} 0.076\n' in text
    assert 'stoker:ticks_by_columns_total{columns="8"} 4\n' in text
    assert "stoker:drafting_declined_total 12\n" in text
    assert 'stoker:draft_gain{drafters="draft-model",standing="declined"} 0.812346\n' in text
    assert "stoker:drafting" not in (await bench().get("/metrics")).text
