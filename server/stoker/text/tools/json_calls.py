"""Calls that are JSON objects: Hermes and Qwen (`<tool_call>`), Llama 3, Mistral before its 11th tokenizer, and kin."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from stoker.text import jsonstream
from stoker.text.source import Source, Wait, accept, collect, peek, spaces, until
from stoker.text.tools.format import Envelope, Reader, Schemas, Tools

_NAME, _ARGUMENTS = "name", ("arguments", "parameters")
_OTHERS = ("id", "type", "function")


@dataclass
class _Reading:
    """One object, as far as it is read."""

    tools: Tools
    known: Collection[str] | None
    name: str = ""
    early: str | None = None
    """Arguments that came before the name."""
    opened: bool = False

    def open(self) -> None:
        self.tools.writer.open_call(self.name)
        self.opened = True

    def give(self, arguments: object) -> None:
        self.tools.writer.arguments(_text(arguments))


def call_object(source: Source, tools: Tools, known: Collection[str] | None = None) -> Wait[bool]:
    """Reads `{"name": …, "arguments": …}`. False, with no call opened, if it is something else.

    With `known` only these names are calls, and an object with other members is none.
    """
    reading = _Reading(tools, known)
    yield from _members(source, reading)
    if reading.opened or not reading.name:
        return reading.opened
    reading.open()
    tools.writer.arguments("{}" if reading.early is None else reading.early)
    return True


def _members(source: Source, reading: _Reading) -> Wait[None]:
    """Reads an object's members until its end, or until it is clear that it is no call: then there is no name."""
    yield from spaces(source)
    if not (yield from accept(source, "{")):
        return
    while True:
        yield from spaces(source)
        key = yield from jsonstream.string(source)
        yield from spaces(source)
        if key is None or not (yield from accept(source, ":")):
            break
        yield from spaces(source)
        if not (yield from _member(source, key, reading)):
            break
        yield from spaces(source)
        if not (yield from accept(source, ",")):
            if (yield from accept(source, "}")):
                return
            break
    if not reading.opened:
        reading.name = ""


def _member(source: Source, key: str, reading: _Reading) -> Wait[bool]:
    if key == _NAME:
        name = yield from jsonstream.string(source)
        if not name or (reading.known is not None and name not in reading.known):
            return False
        reading.name = name
        return True
    if key in _ARGUMENTS:
        return (yield from _arguments(source, reading))
    if key == "function" and (yield from peek(source)) == "{":
        yield from _members(source, reading)
        return bool(reading.name)
    if reading.known is not None and key not in _OTHERS:
        return False
    return (yield from jsonstream.value(source, jsonstream.ignore))


def _arguments(source: Source, reading: _Reading) -> Wait[bool]:
    """Passed on as they come where they are an object; a text that holds JSON must be read whole first."""
    if reading.name and not reading.opened and (yield from peek(source)) == "{":
        reading.open()
        return (yield from jsonstream.value(source, reading.tools.writer.arguments))
    given = yield from jsonstream.whole(source)
    if reading.name and not reading.opened:
        reading.open()
        reading.give(given)
    else:
        reading.early = _text(given)
    return True


def _text(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def objects(source: Source, tools: Tools, known: Collection[str] | None = None) -> Wait[bool]:
    """Reads one object, several behind each other, or an array of them. False if the first is no call."""
    listed = bool((yield from accept(source, "[")))
    some = False
    while (yield from call_object(source, tools, known)):
        some = True
        yield from _separators(source)
        if (yield from peek(source)) != "{":
            break
    if some and listed:
        yield from accept(source, "]")
    return some


def _separators(source: Source) -> Wait[None]:
    while True:
        yield from spaces(source)
        if not (yield from accept(source, ",", ";")):
            return


def tagged(close: str) -> Reader:
    """A reader of objects up to a closing tag; what a model scribbles between the two is dropped."""

    def read(_marker: str, source: Source, tools: Tools) -> Wait[None]:
        yield from spaces(source)
        if (yield from objects(source, tools)):
            yield from until(source, (close,), jsonstream.ignore)

    return read


def envelope(begin: str, end: str, key: str = "arguments") -> Callable[[Schemas], Envelope]:
    def build(schemas: Schemas) -> Envelope:
        return Envelope(begin, one_of(schemas, key), end)

    return build


def one_of(schemas: Schemas, key: str = "arguments") -> Mapping[str, object]:
    """JSON schema of an object that calls one of the tools."""
    calls = [
        {
            "type": "object",
            "properties": {_NAME: {"const": name}, key: dict(schema) or {"type": "object"}},
            "required": [_NAME, key],
            "additionalProperties": False,
        }
        for name, schema in schemas.items()
    ]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def list_envelope(begin: str, end: str) -> Callable[[Schemas], Envelope]:
    def build(schemas: Schemas) -> Envelope:
        return Envelope(begin, {"type": "array", "minItems": 1, "items": one_of(schemas)}, end)

    return build


# Llama 3

PYTHON_TAG = "<|python_tag|>"
_INTERPRETERS = ("python", "ipython", "code_interpreter")


def llama_bare(source: Source, tools: Tools) -> Wait[None]:
    """An answer that begins with `{` and names a tool is a call."""
    if (yield from _begins_with_brace(source)):
        yield from objects(source, tools, tools.schemas)


def _begins_with_brace(source: Source) -> Wait[bool]:
    """Whether the next thing after white space is an object. Nothing is read."""
    while not (text := source.text.lstrip()) and not source.ended:
        yield
    if text.startswith("{"):
        yield from spaces(source)
        return True
    return False


def llama_python(_marker: str, source: Source, tools: Tools) -> Wait[None]:
    """Behind the tag: an object, `tool.call(name="value")`, or code for the interpreter."""
    yield from spaces(source)
    if (yield from peek(source)) in "{[":
        yield from objects(source, tools)
        return
    from stoker.text.tools.notation import python_call

    text, _ = yield from collect(source)
    found = python_call(text.strip())
    if found is not None:
        tools.call(found[0].removesuffix(".call"), json.dumps(found[1], ensure_ascii=False))
    elif name := next((name for name in _INTERPRETERS if name in tools.schemas), ""):
        tools.call(name, json.dumps({"code": text}, ensure_ascii=False))


# Mistral


def mistral(_marker: str, source: Source, tools: Tools) -> Wait[None]:
    """An array of objects; or, with newer tokenizers, `name[ARGS]{…}`, with `[CALL_ID]id` before `[ARGS]` or not."""
    yield from spaces(source)
    if (yield from peek(source)) in "[{":
        yield from objects(source, tools)
        return
    name, marker = yield from collect(source, "[ARGS]", "[CALL_ID]", "[TOOL_CALLS]")
    if marker == "[CALL_ID]":
        _, marker = yield from collect(source, "[ARGS]", "[TOOL_CALLS]")
    yield from spaces(source)
    if marker == "[ARGS]" and name.strip() and (yield from peek(source)) == "{":
        tools.writer.open_call(name.strip())
        yield from jsonstream.value(source, tools.writer.arguments)
