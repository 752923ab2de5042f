"""Constrained answers of live servers: a tiny random model, drafted and not, whose words mean nothing but must fit."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gguf_samples import BEYOND, VOCAB, sample, write
from live.client import Client, client_of
from live.process import Live, refusal, start
from schemas import fits, random_schema

pytestmark = pytest.mark.mlx

CHAT = "/v1/chat/completions"
ANIMAL: dict[str, Any] = {
    "type": "object",
    "properties": {"animal": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
    "required": ["animal", "n"],
    "additionalProperties": False,
}
TRIES = 12


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command line of a server on a random model whose vocabulary can spell JSON."""
    made = sample("llama", vocab_size=VOCAB + len(BEYOND), max_position_embeddings=2048)
    path = write(tmp_path_factory.mktemp("json") / "json.gguf", made)
    return ("-m", str(path), "-np", "2", "-c", "4096", "--alias", "tiny", "--slots", "--metrics")


@pytest.fixture(scope="module")
def servers(words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, Live]]:
    """One that does not draft, and one that does."""
    drafts = ("--draft-kind", "prompt-lookup", "--no-prompt-lookup-adaptive", "--spec-ngram-simple-size-n", "1")
    lives = [start((*words, *more), tmp_path_factory.mktemp("server") / "log") for more in ((), drafts)]
    yield lives[0], lives[1]
    for live in lives:
        live.stop()


@pytest.fixture
async def tiny(servers: tuple[Live, Live]) -> AsyncIterator[Client]:
    async with client_of(servers[0].url) as client:
        yield client
        await client.until(lambda busy: not busy)


@pytest.fixture
async def drafted(servers: tuple[Live, Live]) -> AsyncIterator[Client]:
    async with client_of(servers[1].url) as client:
        yield client
        await client.until(lambda busy: not busy)


def asked(schema: dict[str, Any], seed: int) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": schema}}
    said = [{"role": "user", "content": "Say hi, say hi, say hi"}]
    return {"temperature": 1, "seed": seed, "max_tokens": 200, "response_format": form, "messages": said}


async def test_d10_even_random_weights_answer_with_a_value_of_the_schema_drafted_or_not(
    tiny: Client, drafted: Client
) -> None:
    rounds = 0
    for seed in range(TRIES):
        schema = ANIMAL if seed == 0 else random_schema(random.Random(seed))
        answers = await asyncio.gather(*(client.ask(CHAT, asked(schema, seed)) for client in (tiny, drafted)))
        (choice,), (other,) = (answer["choices"] for answer in answers)
        assert other == choice
        if choice["finish_reason"] == "stop":
            assert fits(json.loads(choice["message"]["content"]), schema), (schema, choice)
        else:
            assert choice["finish_reason"] == "length"
            assert answers[0]["usage"]["completion_tokens"] == 200
        rounds += answers[1]["timings"].get("draft_rounds", 0)
    assert rounds


async def test_d9_a_row_with_a_grammar_drafts_or_says_why_not_and_answers_the_same(
    tiny: Client, drafted: Client
) -> None:
    body = {"n_predict": 32, "temperature": 0, "grammar": 'root ::= "a"+', "speculative": {}}
    body["prompt"] = "one two three one two three"
    plain, quick = [await client.ask("/completion", body) for client in (tiny, drafted)]
    assert plain["content"] == quick["content"] == "a" * len(plain["content"])
    assert plain["timings"]["draft_off"] == "no_drafter"
    assert quick["timings"].get("draft_n") or quick["timings"]["draft_off"] == "does_not_pay"


async def test_a_stream_says_the_same_as_a_whole_answer(drafted: Client) -> None:
    body = {"prompt": "x", "n_predict": 60, "seed": 3, "grammar": 'root ::= ("[" [a-z]{2,5} "]"){3}'}
    whole = await drafted.ask("/completion", body)
    async with drafted.stream("/completion", body) as opened:
        streamed = await opened.rest()
    assert streamed.text == whole["content"]
    assert whole["stop_type"] == "eos"


async def test_grammars_end_where_they_are_over_and_what_cannot_be_followed_is_a_400(tiny: Client) -> None:
    over = await tiny.complete("x", 20, grammar='root ::= "yes" | "no"')
    assert (over["content"] in ("yes", "no"), over["stop_type"]) == (True, "eos")
    ignoring = await tiny.complete("x", 20, grammar='root ::= "yes" | "no"', ignore_eos=True)
    assert (ignoring["content"], ignoring["stop_type"]) == (over["content"], "eos")
    for body in ({"grammar": "root ::= ("}, {"json_schema": {"type": "string", "enum": [1]}}):
        for stream in (False, True):
            refused = await tiny.post("/completion", {"prompt": "x", "stream": stream, **body})
            assert refused.status_code == 400
            assert refused.json()["error"]["type"] == "invalid_request_error"


async def test_a_grammar_that_the_vocabulary_cannot_spell_is_a_500_and_others_go_on(tiny: Client) -> None:
    company = asyncio.create_task(tiny.complete("hello", 60))
    lost = await tiny.post("/completion", {"prompt": "x", "grammar": 'root ::= "a" "\\u2603"'})
    assert lost.status_code == 500
    assert "no further token" in lost.json()["error"]["message"]
    assert (await company)["tokens_predicted"] == 60


def test_a_grammar_on_the_command_line_must_be_one(words: tuple[str, ...]) -> None:
    end = refusal((*words, "--port", "0", "--grammar", "root ::= ("))
    assert end.status == 1
    assert end.errors == ["error: the grammar of the command line cannot be followed: line 1: ) is expected, near ''"]


async def test_the_command_lines_schema_holds_where_a_request_says_nothing(
    words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    live = start((*words, "-j", '{"enum": ["x", "y"]}'), tmp_path_factory.mktemp("held") / "log")
    try:
        async with client_of(live.url) as client:
            held = await client.complete("a", 20)
            free = await client.complete("a", 20, grammar="")
        assert held["content"] in ('"x"', '"y"')
        assert "%json" in held["generation_settings"]["grammar"]
        assert free["generation_settings"]["grammar"] == ""
    finally:
        live.stop()
