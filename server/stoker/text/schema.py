"""A JSON schema as the text of a grammar, in the form that a llama-server built with llguidance gives it.

The text is what is in force: llguidance reads it as it stands.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from stoker.text.gbnf_lark import HEAD
from stoker.text.rules import GrammarError

_JSON = " %json "
_PLAIN = f"{HEAD}start:"
_VALUE = "\nvalue:"
_PART = r'"(?:[^"\\]|\\.)*"|<\[\d+\]>'
_ENVELOPE = re.compile(rf"{re.escape(_PLAIN)}((?: (?:{_PART}))* value(?: (?:{_PART}))*){_VALUE}{_JSON}")
REFUSED = "JSON schema conversion failed:\n"
"""llama-server's words before what is wrong with a schema."""
DEEPEST = 300
"""Levels of a schema, references followed: what reads it calls itself at each."""
OPTIONS: Mapping[str, object] = {"whitespace_pattern": r"( |\n{1,2}[ \t]{0,20})?"}
"""Between the parts of a value llama-server allows one blank, or one or two new lines and an indentation."""

Schema = Mapping[str, object]

_MERGED = ("allOf", "unevaluatedProperties")
_SIBLINGS = ("anyOf", "oneOf", "allOf", "$ref", "if", "patternProperties")


Part = str | int
"""A literal text, or the id of a token."""


def of_schema(schema: object) -> str:
    """The grammar of the values that fit a schema. Raises GrammarError for one that nests too deeply.

    As upstream, an object that lists its properties and does not speak of others has no others.
    """
    return _PLAIN + _JSON + _dump(schema)


def of_envelope(before: Sequence[Part], schema: object, after: Sequence[Part]) -> str:
    """The grammar of such a value with fixed parts around it. Raises as `of_schema`."""
    return f"{_PLAIN} {' '.join([*map(_part, before), 'value', *map(_part, after)])}{_VALUE}{_JSON}{_dump(schema)}"


def is_schema(text: str) -> bool:
    """True if the text is a grammar that one of these functions made."""
    return text.startswith(_PLAIN + _JSON) or _ENVELOPE.match(text) is not None


def reread(text: str) -> str:
    """The same grammar from its own text, checked as a new one. Raises GrammarError if it is none."""
    envelope = _ENVELOPE.match(text)
    head = envelope[0] if envelope else _PLAIN + _JSON
    try:
        return head + _dump(json.loads(text.removeprefix(head)))
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"no JSON schema: {error}") from None


def _part(part: Part) -> str:
    return f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False)


def _dump(schema: object) -> str:
    _check_depth(schema)
    if schema is True:
        schema = {}
    if isinstance(schema, dict):
        given = cast("Schema", schema)
        whole = given if any(name in _MERGED for name in _keys(given)) else cast("Schema", _closed(given))
        own = given.get("x-guidance")
        schema = {**whole, "x-guidance": {**OPTIONS, **(cast("Schema", own) if isinstance(own, dict) else {})}}
    return json.dumps(schema, ensure_ascii=False)


def _closed(node: object) -> object:
    """The schema with its objects closed, where nothing else could add properties to them."""
    if isinstance(node, list):
        return [_closed(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Schema", node)
    if "properties" in schema and any(name in schema for name in _SIBLINGS):
        return schema
    closed = {name: value if name in ("enum", "const", "default") else _closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type", "object") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def _keys(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in cast("Schema", node).items():
            yield name
            yield from _keys(value)
    elif isinstance(node, list):
        for item in cast("list[object]", node):
            yield from _keys(item)


def _check_depth(schema: object) -> None:
    """Follows each reference once. Only references into the schema itself exist: any other fails when it is read."""
    seen = set[str]()
    waiting = [(schema, 0)]
    while waiting:
        node, level = waiting.pop()
        if level > DEEPEST:
            raise GrammarError("the schema nests too deeply")
        if isinstance(node, list):
            waiting += [(item, level + 1) for item in reversed(cast("list[object]", node))]
        elif isinstance(node, dict):
            members = cast("Schema", node)
            target = members.get("$ref")
            if isinstance(target, str) and target not in seen:
                seen.add(target)
                waiting.append((_resolve(schema, target), level + 1))
            own = [item for name, item in members.items() if name not in ("$defs", "definitions")]
            waiting += [(item, level + 1) for item in reversed(own)]


def _resolve(schema: object, reference: str) -> object:
    node = schema
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        node = cast("Schema", node).get(name) if isinstance(node, dict) else None
    return node
