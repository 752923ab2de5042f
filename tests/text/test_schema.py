"""JSON schemas as grammars."""

import json
from typing import Any

import pytest

from letters import Letters
from stoker.core.errors import InvalidRequest
from stoker.core.request import Grammar
from stoker.text.grammar import Grammars
from stoker.text.rules import GrammarError
from stoker.text.schema import is_schema, of_envelope, of_schema, reread

LETTERS = Letters()
GRAMMARS = Grammars(LETTERS)


def takes(text: str, answer: str) -> bool:
    """True if this answer, and no less, may be given."""
    constraint = GRAMMARS.constraint(Grammar(text))
    tokens = LETTERS.encode(answer)
    return constraint.allowed(tokens) == len(tokens) and constraint.allowed([*tokens, 0]) == len(tokens) + 1


def value(text: str) -> Any:
    return json.loads(text[text.index("%json ") + 6 :])


def test_white_space_is_what_llama_server_allows() -> None:
    text = of_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    assert takes(text, '{"a":1}')
    assert takes(text, '{ "a" : 1 }')
    assert takes(text, '{\n    "a": 1\n}')
    assert not takes(text, '{  "a": 1}')
    assert not takes(text, '{"a": 1} ')


def test_objects_that_list_their_properties_are_closed_unless_something_could_add_to_them() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "null"}}}
    closed = value(of_schema({"type": "object", "properties": {"a": inner}}))
    assert closed["additionalProperties"] is False
    assert closed["properties"]["a"]["additionalProperties"] is False
    for open_one in (
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {}}, "anyOf": [inner]},
        {"allOf": [inner, {"properties": {"c": {}}}]},
        {"type": "object"},
        {"type": "string", "properties": {}},
        {"const": inner},
    ):
        text = value(of_schema(open_one))
        del text["x-guidance"]
        assert text == open_one


def test_true_and_a_clients_own_options_pass() -> None:
    assert takes(of_schema(True), "[1, null]")
    text = of_schema({"type": "array", "x-guidance": {"item_separator": ";"}})
    assert takes(text, "[1;2]")
    assert value(text)["x-guidance"]["whitespace_pattern"]


def test_a_schemas_text_is_recognised_and_checked_again() -> None:
    for text in (of_schema({"type": "null"}), of_envelope(["<t>", 2], {"type": "null"}, ['"', "x\n"])):
        assert is_schema(text)
        assert reread(text) == text
    assert not is_schema('root ::= "a"')
    assert not is_schema("%llguidance {}\nstart: %json {}")
    with pytest.raises(GrammarError, match="no JSON schema"):
        reread(of_schema({}) + "}")
    with pytest.raises(InvalidRequest, match="no JSON schema"):
        GRAMMARS.check(Grammar(of_schema({}) + "\nx: y"))


def test_an_envelope_puts_fixed_parts_around_the_value() -> None:
    text = of_envelope(["<call>"], {"enum": [1, 2]}, ["</call>\n"])
    assert takes(text, "<call>2</call>\n")
    assert not takes(text, "<call>3</call>\n")
    assert not takes(text, "2")


def test_references_are_followed_once_and_unknown_ones_are_llguidances_business() -> None:
    tree = {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}}}}
    assert takes(of_schema(tree), "[[],[[]]]")
    for strange in ("#/nowhere/at/all", "http://elsewhere/x"):
        with pytest.raises(InvalidRequest, match="JSON schema conversion failed"):
            GRAMMARS.check(Grammar(of_schema({"$ref": strange})))


def test_a_schema_that_nests_too_deeply_is_refused_before_anything_reads_it() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"items": [deep]}
    with pytest.raises(GrammarError, match="nests too deeply"):
        of_schema(deep)
    assert of_schema(False).endswith("%json false")
