"""Demands D1, D3 to D5, D7, D9 and D10: what drafting may not change, and what it must tell.

Tiny random models. The draft model is the target with weights nudged, so that it is right often and not always.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from live.client import Body, Client, client_of
from live.models import tiny
from live.process import Live, start

pytestmark = pytest.mark.mlx

MEANING: Body = {
    "prompt": "I believe the meaning of life is", "n_predict": 64, "temperature": 0, "return_tokens": True,
}  # fmt: skip
REPEAT: Body = {"prompt": "one two three one two three one two", "temperature": 0, "ignore_eos": True}
PLAIN: Body = {"speculative": {"kind": "none"}}
KINDS = ("prompt-lookup", "draft-model")
DRAFT_KEYS = {"draft_n", "draft_n_accepted", "draft_rounds", "draft_kind"}
DRAFTED, ACCEPTED, ROUNDS = (
    f"llamacpp:spec_decode_num_{name}_total" for name in ("draft_tokens", "accepted_tokens", "drafts")
)
TRIES = 10


@pytest.fixture(params=KINDS)
async def drafting(request: pytest.FixtureRequest, drafting_servers: dict[str, Live]) -> AsyncIterator[Client]:
    """A server of each kind."""
    async with client_of(drafting_servers[request.param].url) as client:
        yield client
        await client.until_busy(0)


@pytest.fixture
async def model(drafting_servers: dict[str, Live]) -> AsyncIterator[Client]:
    """The server with a draft model."""
    async with client_of(drafting_servers["draft-model"].url) as client:
        yield client
        await client.until_busy(0)


async def ask(client: Client, body: Body, **more: Any) -> Body:
    return await client.ask("/completion", {"cache_prompt": False, **body, **more})


async def drafted(client: Client, body: Body, **more: Any) -> Body:
    """An answer that was drafted. The budget may decline, so it is asked for again, and must always be the same."""
    first = answer = await ask(client, body, **more)
    for _ in range(TRIES):
        if "draft_n" in answer["timings"]:
            return answer
        answer = await ask(client, body, **more)
        assert answer["content"] == first["content"]
    raise AssertionError("the budget never lets it draft, so nothing is proved")


def check(answer: Body) -> None:
    """The counters of a drafted answer."""
    timings = answer["timings"]
    assert 0 <= timings["draft_n_accepted"] <= timings["draft_n"]
    assert 1 <= timings["draft_rounds"] <= timings["draft_n"]
    assert answer["tokens_predicted"] >= timings["draft_n_accepted"]


@pytest.mark.parametrize("most", [1, 2, 4, 8, 16])
async def test_d1_drafted_equals_undrafted(drafting: Client, most: int) -> None:
    plain = await ask(drafting, MEANING, **PLAIN)
    assert "draft_n" not in plain["timings"]
    answer = await drafted(drafting, MEANING, speculative={"n_max": most})
    assert answer["tokens"] == plain["tokens"]
    assert answer["timings"]["draft_n"] <= most * answer["timings"]["draft_rounds"]
    check(answer)


async def landmark(client: Client) -> tuple[list[int], int]:
    """A plain run, and the place of a printable token in it that did not come before."""
    tokens = (await ask(client, MEANING, **PLAIN))["tokens"]
    for place, token in enumerate(tokens):
        if place >= 4 and 0x21 <= token < 0x7F and token not in tokens[:place]:
            return tokens, place
    raise AssertionError(f"a run without a landmark: {tokens}")


async def test_d3_a_stop_string_inside_an_accepted_block_ends_the_answer_there(drafting: Client) -> None:
    tokens, place = await landmark(drafting)
    piece = chr(tokens[place])
    plain = await ask(drafting, MEANING, stop=[piece], **PLAIN)
    answer = await drafted(drafting, MEANING, stop=[piece], id_slot=0)
    assert (answer["content"], answer["tokens"]) == (plain["content"], plain["tokens"])
    assert (answer["stop_type"], answer["tokens_predicted"]) == ("word", place + 1)
    check(answer)
    prompt = (await drafting.ask("/tokenize", {"content": MEANING["prompt"]}))["tokens"]
    going_on = {**MEANING, "prompt": [*prompt, *tokens[:place], 65], "n_predict": 8}
    cold = await ask(drafting, going_on, id_slot=1, **PLAIN)
    warm = await ask(drafting, going_on, id_slot=0, cache_prompt=True)
    assert warm["timings"]["cache_n"] == len(prompt) + place
    assert warm["tokens"] == cold["tokens"]


@pytest.mark.parametrize("kind", KINDS)
async def test_d3_a_true_end_token_does_so_too(
    kind: str, drafting_servers: dict[str, Live], target_path: Path, tmp_path: Path
) -> None:
    async with client_of(drafting_servers[kind].url) as client:
        tokens, place = await landmark(client)
    ended = tiny(tmp_path / "ended.gguf", end=tokens[place])
    words = ("-md", str(target_path)) if kind == "draft-model" else ("--draft-kind", kind)
    live = start(("-m", str(ended), "-np", "1", "-c", "4096", *words), tmp_path / "log")
    async with client_of(live.url) as client:
        plain = await ask(client, MEANING, **PLAIN)
        answer = await drafted(client, MEANING)
        assert answer["tokens"] == plain["tokens"] == tokens[: place + 1]
        assert (answer["stop_type"], answer["tokens_predicted"]) == ("eos", place + 1)
        check(answer)
        cold = await ask(client, {**MEANING, "n_predict": 4}, **PLAIN)
        assert (await ask(client, {**MEANING, "n_predict": 4}, cache_prompt=True))["tokens"] == cold["tokens"]
    live.stop()


async def test_d4_counters_add_up(drafting: Client) -> None:
    body = {**REPEAT, "n_predict": 48, "return_tokens": True}
    whole = await drafted(drafting, body)
    check(whole)
    assert "draft_n" not in (await ask(drafting, body, **PLAIN))["timings"]
    async with drafting.stream("/completion", {**body, "cache_prompt": False, "timings_per_token": True}) as stream:
        await stream.rest()
    *middle, last = stream.frames
    assert stream.text == whole["content"]
    assert not any(DRAFT_KEYS & set(frame["timings"]) for frame in middle)
    assert last["tokens_predicted"] == whole["tokens_predicted"]
    before = await drafting.metrics()
    answers = await asyncio.gather(*(ask(drafting, {**body, "n_predict": 40 + 8 * n}) for n in range(4)))
    after = await drafting.metrics()
    timings = [answer["timings"] for answer in answers]
    for name, key in ((DRAFTED, "draft_n"), (ACCEPTED, "draft_n_accepted"), (ROUNDS, "draft_rounds")):
        assert after[name] - before[name] == sum(one.get(key, 0) for one in timings)
    for answer in answers:
        if "draft_n" in answer["timings"]:
            check(answer)


async def test_d5_timings_are_split_where_the_work_was(drafting: Client) -> None:
    body = {**REPEAT, "n_predict": 600, "cache_prompt": False}
    for last in (False, False, True):  # the machine may be busy with something else
        began = time.monotonic()
        async with drafting.stream("/completion", body) as stream:
            await stream.next()
            first = time.monotonic() - began
            await stream.rest()
        wall = time.monotonic() - began
        timings = stream.frames[-1]["timings"]
        told = (timings["prompt_ms"] + timings["predicted_ms"]) / 1e3
        if last or 0.8 * wall <= told <= 1.2 * wall:
            break
    assert 0.8 * wall <= told <= 1.2 * wall
    assert first < 0.5 * wall
    assert timings["predicted_per_second"] <= 1.3 * timings["predicted_n"] / wall
    assert timings["predicted_n"] == 600


@pytest.mark.parametrize("kind", KINDS)
async def test_d7_company_changes_neither_text_nor_acceptance(
    kind: str, drafting_servers: dict[str, Live], target_path: Path, tmp_path: Path
) -> None:
    common = {**REPEAT, "n_predict": 192, "return_tokens": True, "speculative": {"n_max": 1}}
    bodies = [{**common, "prompt": "one two three " * n} for n in (3, 20, 60, 120)]
    # A draft model that is the target itself is right as often as it is asked: whenever that may be, no rate hides it.
    words = ("-m", str(target_path), "-md", str(target_path), "-np", "4", "-c", "16384")
    live = start(words, tmp_path / "log") if kind == "draft-model" else drafting_servers[kind]
    async with client_of(live.url) as client:
        alone = [await drafted(client, body) for body in bodies]
        together = await asyncio.gather(*(ask(client, body) for body in bodies))
    assert [answer["tokens"] for answer in together] == [answer["tokens"] for answer in alone]
    told = [answer["timings"] for answer in together if "draft_n" in answer["timings"]]
    assert rate(told) > rate([answer["timings"] for answer in alone]) - 0.1
    if kind == "draft-model":
        assert rate(told) > 0.95
        live.stop()


def rate(timings: list[Body]) -> float:
    """Accepted proposals of all that were made; each round makes one, so that no width enters."""
    return sum(one["draft_n_accepted"] for one in timings) / sum(one["draft_n"] for one in timings)


OPTIONS: dict[str, Body] = {
    "penalty": {"frequency_penalty": 0.5},
    "grammar": {"grammar": 'root ::= "a"+'},
    "probabilities": {"n_probs": 3},
    "mirostat": {"mirostat": 2, "temperature": 1.0, "seed": 5},
}


@pytest.mark.parametrize("name", OPTIONS)
async def test_d9_an_option_is_drafted_with_the_same_result_or_says_why_not(
    drafting: Client, drafting_servers: dict[str, Live], name: str
) -> None:
    body = {**REPEAT, "prompt": "one two three one two three", "n_predict": 32, "return_tokens": True, **OPTIONS[name]}
    plain = await ask(drafting, body, **PLAIN)
    answer = await ask(drafting, body, speculative={})
    assert answer["tokens"] == plain["tokens"]
    assert tops(answer) == tops(plain)
    timings = answer["timings"]
    assert ("draft_n" in timings) != ("draft_off" in timings)
    if "draft_off" in timings:
        assert (await drafting.slots())[answer["id_slot"]]["draft_off"] == timings["draft_off"]
        lines = [line for live in drafting_servers.values() for line in live.requests]
        assert any(line.endswith(f" off={timings['draft_off']}") for line in lines)
    assert name != "mirostat" or timings["draft_off"] == "sampler"


def tops(answer: Body) -> list[list[int]]:
    """The likeliest tokens at each place, where they were asked for."""
    return [[top["id"] for top in one["top_logprobs"]] for one in answer.get("completion_probabilities", ())]


SCHEMA: Body = {
    "type": "object",
    "properties": {"animal": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
    "required": ["animal", "n"],
    "additionalProperties": False,
}
EXAMPLE = 'Say hi, as in {"animal":"cat","n":1}.'
"""What the keys of an answer can be looked up in."""
SAY_HI: Body = {
    "model": "M", "temperature": 1, "max_tokens": 200, "messages": [{"role": "user", "content": EXAMPLE}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": SCHEMA}},
}  # fmt: skip


async def test_d10_a_schema_holds_even_with_random_weights_drafted_or_not(
    drafting: Client, request: pytest.FixtureRequest
) -> None:
    valid = rounds = 0
    for seed in range(1, 11):
        body = {**SAY_HI, "seed": seed}
        plain, answer = [await drafting.ask("/v1/chat/completions", {**body, **more}) for more in (PLAIN, {})]
        assert answer["choices"] == plain["choices"]
        rounds += answer["timings"].get("draft_rounds", 0)
        choice = answer["choices"][0]
        if choice["finish_reason"] == "length":
            continue
        valid += 1
        value = json.loads(choice["message"]["content"])
        assert set(value) == {"animal", "n"}
        assert isinstance(value["animal"], str)
        assert len(value["animal"]) <= 12
        assert type(value["n"]) is int
    assert valid
    if "prompt-lookup" in request.node.name:  # the random draft model hardly ever proposes what the schema allows
        assert rounds


@pytest.mark.parametrize(
    "wrong",
    [
        {"grammar": "root ::= missing"},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "string", "format": "no"}}}},
        {"response_format": {"type": "xml"}},
    ],
    ids=["grammar", "schema", "type"],
)
async def test_d10_what_cannot_be_followed_is_refused(model: Client, wrong: Body) -> None:
    base = {key: value for key, value in SAY_HI.items() if key != "response_format"}
    refused = await model.post("/v1/chat/completions", {**base, **wrong})
    assert refused.status_code == 400
    assert set(refused.json()["error"]) == {"code", "message", "type"}
