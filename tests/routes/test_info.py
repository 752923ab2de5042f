"""/props, /slots, /metrics, /models, /lora-adapters and the routes that are switched off."""

from dataclasses import replace

import pytest

from routes.fakes import Bench, bench, message
from stoker.core.request import MAX_SEED, Sampling
from stoker.routes.service import Switches
from stoker.routes.shape.metrics import metrics
from stoker.scheduler.views import SlotView, Totals

OFF = Switches(slots=False, props=False, metrics=False)
USED = SlotView(
    0, content=27, task=37, busy=True, processed=4, cached=2, decoded=20, remaining=5, report={"seed": 1, "stop": []}
)


async def test_a_used_slot_shows_its_task_without_the_long_settings() -> None:
    made = bench(speculative_types="none,prompt-lookup")
    made.scheduler.views = [USED, SlotView(1)]
    used, unused = (await made.get("/slots")).json()
    assert used == {
        "id": 0,
        "n_ctx": 1024,
        "speculative": True,
        "is_processing": True,
        "id_task": 37,
        "n_prompt_tokens": 27,
        "n_prompt_tokens_processed": 4,
        "n_prompt_tokens_cache": 2,
        "params": {"seed": 1},
        "next_token": [{"has_next_token": True, "has_new_line": False, "n_remain": 5, "n_decoded": 20}],
        "draft_kind": None,
        "draft_off": None,
    }
    assert list(unused) == ["id", "n_ctx", "speculative", "is_processing"]


async def test_debugging_shows_all_settings_of_a_slot() -> None:
    made = bench(switches=Switches(slots_debug=True))
    made.scheduler.views = [USED]
    assert (await made.get("/slots")).json()[0]["params"] == {"seed": 1, "stop": []}


async def test_no_idle_slot_fails_if_asked_to() -> None:
    made = Bench()
    made.scheduler.views = [USED, replace(USED, id=1)]
    assert (await made.get("/slots")).status_code == 200
    answer = await made.get("/slots?fail_on_no_slot=1")
    assert (answer.status_code, message(answer)) == (503, "no slot available")
    made.scheduler.views = [USED, SlotView(1)]
    assert (await made.get("/slots?fail_on_no_slot=1")).status_code == 200


async def test_rates_are_of_the_time_since_the_last_scrape() -> None:
    made = Bench()
    made.scheduler.sums = Totals(prompt_tokens=10, prompt_seconds=2.0, predicted_tokens=30, predicted_seconds=3.0)
    first = (await made.get("/metrics")).text
    second = (await made.get("/metrics")).text
    assert "llamacpp:prompt_tokens_seconds 5\n" in first
    assert "llamacpp:predicted_tokens_seconds 10\n" in first
    assert "llamacpp:predicted_tokens_seconds 0\n" in second
    assert "llamacpp:prompt_tokens_total 10\n" in second


def test_metrics_print_six_digits_positions_and_our_own() -> None:
    sums = Totals(
        predicted_tokens=1234567,
        predicted_seconds=1.7006123,
        decodes=4,
        busy_slots=6,
        accepted_by_position=(22, 20),
        ticks=1234567,
        tick_lag=0.0001234,
        tick_lag_sum=1.5,
        tick_lag_max=0.25,
        chunks=3,
        chunk_seconds=1.25,
        chunk_seconds_max=0.5,
    )
    text = metrics(sums, sums)
    assert "llamacpp:tokens_predicted_total 1.23457e+06\n" in text
    assert "llamacpp:tokens_predicted_seconds_total 1.70061\n" in text
    assert "llamacpp:n_busy_slots_per_decode 1.5\n" in text
    assert 'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 20\n' in text
    assert "stoker:ticks_total 1234567\n" in text
    assert "stoker:tick_lag_seconds 0.0001234\n" in text
    assert "stoker:prefill_chunks_total 3\n" in text
    assert "stoker:prefill_chunk_seconds_total 1.25\n" in text
    assert "stoker:prefill_chunk_seconds_max 0.5\n" in text
    assert text.index("llamacpp:") < text.index("stoker:")


async def test_metrics_tell_when_the_server_started() -> None:
    answer = await bench(started=1_700_000_000).get("/metrics")
    assert answer.headers["process-start-time-unix"] == "1700000000"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4"


async def test_props_show_the_servers_defaults() -> None:
    made = bench(sampling=Sampling(seed=MAX_SEED, temperature=0.25, top_k=7))
    props = (await made.get("/props")).json()
    params = props["default_generation_settings"]["params"]
    assert (params["seed"], params["temperature"], params["top_k"]) == (MAX_SEED, 0.25, 7)
    assert len(params) == 42
    assert props["media_marker"] == (await made.get("/props")).json()["media_marker"]


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("POST", "/props", "changing global properties. Start it with `--props`"),
        ("GET", "/metrics", "metrics endpoint. Start it with `--metrics`"),
        ("GET", "/slots", "slots endpoint. Start it with `--slots`"),
        ("POST", "/slots/0?action=restore", "slots action. Start it with `--slot-save-path`"),
        ("POST", "/embeddings", "embeddings. Start it with `--embeddings`"),
        ("POST", "/reranking", "reranking. Start it with `--reranking`"),
    ],
)
async def test_what_is_switched_off_says_how_to_switch_it_on(method: str, path: str, said: str) -> None:
    answer = await bench(switches=OFF).client.request(method, path, json={})
    assert (answer.status_code, message(answer)) == (501, f"This server does not support {said}")


async def test_all_aliases_are_listed() -> None:
    (entry,) = (await bench(aliases=("a", "b")).get("/v1/models")).json()["data"]
    assert (entry["id"], entry["aliases"]) == ("a", ["a", "b"])


async def test_a_broken_body_is_a_500_also_where_it_is_not_used() -> None:
    answer = await Bench().client.post("/props", content=b"")
    assert answer.status_code == 500


async def test_tags_stand_in_the_list_of_models() -> None:
    made = bench(tags=("small", "fast"))
    assert (await made.get("/v1/models")).json()["data"][0]["tags"] == ["small", "fast"]


async def test_the_time_in_ticks_is_among_our_own_figures() -> None:
    assert "stoker:tick_seconds_total 1.5\n" in metrics(Totals(ticks=3, tick_seconds=1.5), Totals())
