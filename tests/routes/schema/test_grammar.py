"""Which grammar a body asks for, and llama-server's words where it cannot be had."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from letters import CONTROL, Letters
from routes.fakes import bench, message
from stoker.core.errors import InvalidRequest
from stoker.core.request import Grammar, Trigger, TriggerKind
from stoker.routes.schema.grammar import envelope_grammar
from stoker.text.schema import of_schema

YES = 'root ::= "yes"'
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OBJECT = of_schema({"type": "object"})


async def asked(path: str = "/completion", *, server: str = "", **fields: Any) -> tuple[Grammar, Mapping[str, Any]]:
    """The grammar that reached the scheduler, and what the answer's settings say of it."""
    made = bench(grammar=server)
    start = {"prompt": "x"} if path == "/completion" else {"messages": [{"role": "user", "content": "x"}]}
    answer = await made.post(path, start | fields)
    assert answer.status_code == 200, answer.text
    (request,) = made.scheduler.requests
    return request.grammar, request.report


async def refused(path: str = "/completion", **fields: Any) -> tuple[int, str]:
    start = {"prompt": "x"} if path == "/completion" else {"messages": [{"role": "user", "content": "x"}]}
    answer = await bench().post(path, start | fields)
    return answer.status_code, message(answer)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"grammar": YES}, YES),
        ({"grammar": ""}, ""),
        ({"json_schema": SCHEMA}, of_schema(SCHEMA)),
        ({"json_schema": SCHEMA, "grammar": YES}, YES),
        ({"json_schema": SCHEMA, "grammar": None}, ""),
        ({"json_schema": None}, ""),
        ({"json_schema": {}}, OBJECT),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, ""),
    ],
)
async def test_a_native_body_says_it_by_grammar_or_schema(fields: dict[str, Any], text: str) -> None:
    grammar, report = await asked(**fields)
    assert grammar == Grammar(text)
    assert (report["grammar"], report["grammar_lazy"], report["grammar_triggers"]) == (text, False, [])


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"grammar": YES}, YES),
        ({"json_schema": SCHEMA}, of_schema(SCHEMA)),
        ({"response_format": {"type": "text"}}, ""),
        ({"response_format": {"type": "json_object"}}, ""),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, of_schema(SCHEMA)),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, of_schema(SCHEMA)),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, OBJECT),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}, "grammar": YES},
            of_schema(SCHEMA),
        ),
    ],
)
async def test_a_chat_says_it_by_response_format_too(fields: dict[str, Any], text: str) -> None:
    assert (await asked("/v1/chat/completions", **fields))[0] == Grammar(text)


async def test_both_at_once_are_a_500_in_a_chat() -> None:
    said = "Cannot use both json_schema and grammar"
    assert await refused("/v1/chat/completions", json_schema=SCHEMA, grammar=YES) == (500, said)
    strange = await refused("/v1/chat/completions", response_format={"type": "sound"})
    assert strange == (400, 'response_format type must be one of "text" or "json_object", but got: sound')


async def test_the_servers_own_grammar_holds_where_a_request_brings_none() -> None:
    assert (await asked(server=YES))[0] == Grammar(YES)
    assert (await asked(server=YES, grammar=""))[0] == Grammar()
    assert (await asked(server=YES, json_schema=SCHEMA))[0] == Grammar(of_schema(SCHEMA))


async def test_a_settings_text_may_be_sent_back() -> None:
    _, report = await asked(json_schema=SCHEMA)
    assert (await asked(grammar=report["grammar"]))[0].text == report["grammar"]


TRIGGERS = "Field 'grammar_triggers': "
BAD = "Failed to initialize samplers: failed to parse grammar"
UNMADE = "JSON schema conversion failed:\n"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"grammar": "root ::= ("}, BAD),
        ({"grammar": "rule ::= root"}, BAD),
        ({"grammar": 'root ::= root "a"'}, BAD),
        ({"grammar": '%llguidance {}\nstart: "a"'}, BAD),
        ({"grammar": 5}, "Field 'grammar': [json.exception.type_error.302] type must be string, but is number"),
        ({"json_schema": []}, "Field 'json_schema': [json.exception.type_error.302] type must be object, but is array"),
        ({"json_schema": {"type": "array", "uniqueItems": True}}, f'{UNMADE}Unimplemented keys: ["uniqueItems"]'),
        ({"json_schema": {"type": "string", "minLength": 3, "maxLength": 1}}, None),
        ({"json_schema": False}, None),
        ({"grammar": YES, "grammar_lazy": True}, f"{TRIGGERS}Error: no triggers set for lazy grammar!"),
        (
            {"grammar_triggers": [{"type": 2, "value": "(a+)+"}]},
            f"{TRIGGERS}a trigger is a token (type 0) or a word (type 1) here",
        ),
        (
            {"grammar_triggers": [{"type": 1, "value": "a"}]},
            f"{TRIGGERS}Grammar trigger word should be marked as preserved token: a",
        ),
    ],
)
async def test_what_cannot_be_followed_is_a_400_and_never_ignored(fields: dict[str, Any], said: str | None) -> None:
    status, words = await refused(**fields)
    assert status == 400
    assert words == said if said else words.startswith(UNMADE)


async def test_a_stream_with_a_bad_grammar_is_plain_json_with_its_status() -> None:
    assert await refused(grammar="root ::= (", stream=True) == (400, BAD)
    assert await refused("/v1/chat/completions", grammar="root ::= (", stream=True) == (400, BAD)


async def test_a_schema_that_nests_too_deeply_is_refused_before_anything_reads_it() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"items": deep}
    status, words = await refused(json_schema=deep)
    assert (status, words.endswith("the value is nested too deeply")) == (500, True), "no body may be as deep"
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(400)}
    assert await refused(json_schema={"$ref": "#/$defs/d0", "$defs": chain}) == (
        400,
        f"{UNMADE}the schema nests too deeply",
    )


async def test_lazy_grammars_wait_for_words_and_tokens() -> None:
    triggers = [{"type": 1, "value": "call"}, {"type": 1, "value": "!"}, {"type": 0, "value": "?", "token": 63}]
    grammar, report = await asked(
        grammar=YES, grammar_lazy=True, grammar_triggers=triggers, preserved_tokens=["!", "ab", 1]
    )
    word, single, token = grammar.triggers
    assert grammar.lazy
    assert word == Trigger(TriggerKind.WORD, "call")
    assert single == Trigger(TriggerKind.TOKEN, "!", 33)
    assert token == Trigger(TriggerKind.TOKEN, "?", 63)
    assert report["grammar_triggers"] == [
        {"type": 1, "value": "call"},
        {"type": 0, "value": "!", "token": 33},
        {"type": 0, "value": "?", "token": 63},
    ]
    assert report["preserved_tokens"] == [33]


def test_an_envelope_takes_control_tokens_for_what_they_are() -> None:
    class Tokens(Letters):
        @property
        def vocab(self) -> int:
            return len(self.pieces)

        def piece(self, id: int, *, special: bool = True) -> bytes:
            return self.pieces[id] if special or id not in self.hidden else b""

    text = envelope_grammar("call <control>\n", SCHEMA, "<control>", Tokens())  # pyright: ignore[reportArgumentType]
    head, value = text.splitlines()[1:]
    assert head == f'start: "call " <[{CONTROL}]> "\\n" value <[{CONTROL}]>'
    assert json.loads(value.removeprefix("value: %json "))["required"] == ["a"]
    with pytest.raises(InvalidRequest, match="nests too deeply"):
        envelope_grammar("", json.loads('{"items":' * 400 + "{}" + "}" * 400), "", Tokens())  # pyright: ignore[reportArgumentType]
