"""Calls whose arguments are tagged one by one: Qwen3-Coder and Qwen3.5 (`<parameter=…>`), GLM 4.5 (`<arg_key>`).

The tool's own schema says which arguments are texts; a text is passed on as it comes, another value once it is whole.
"""

import json

from stoker.text import jsonstream
from stoker.text.source import Source, Wait, accept, collect, peek, spaces, until
from stoker.text.tools.format import Tools
from stoker.text.tools.json_calls import objects

_WORDS = {"true": True, "false": False, "null": None, "none": None}


class _Arguments:
    """Writes a JSON object member by member."""

    def __init__(self, tools: Tools, name: str) -> None:
        self._write = tools.writer.arguments
        self._types = jsonstream.members(tools.schemas.get(name, {}).get("properties"))
        self._begun = False
        tools.writer.open_call(name)

    def key(self, name: str) -> None:
        self._write((", " if self._begun else "{") + json.dumps(name, ensure_ascii=False) + ": ")
        self._begun = True

    def is_text(self, key: str) -> bool:
        """True where the schema takes a text, whatever else it takes."""
        kind = jsonstream.members(self._types.get(key)).get("type")
        return kind == "string" or "string" in jsonstream.items(kind)

    def text(self, piece: str) -> None:
        self._write(json.dumps(piece, ensure_ascii=False)[1:-1])

    def value(self, text: str) -> None:
        """JSON where it is some, Python's words for it included; else a text."""
        given = text.strip()
        if given.lower() in _WORDS:
            self._write(json.dumps(_WORDS[given.lower()]))
        elif jsonstream.parsed(given) is not None:
            self._write(given)
        else:
            self._write(json.dumps(text, ensure_ascii=False))

    def quote(self) -> None:
        self._write('"')

    def end(self) -> None:
        self._write("}" if self._begun else "{}")


class _Lines:
    """Passes text on but for one new line at its beginning and one at its end."""

    def __init__(self, arguments: _Arguments) -> None:
        self._arguments = arguments
        self._first, self._held = True, ""

    def __call__(self, text: str) -> None:
        if self._first and text:
            self._first = False
            text = text.removeprefix("\n")
        text = self._held + text
        self._held = "\n" if text.endswith("\n") else ""
        self._arguments.text(text[:-1] if self._held else text)


def qwen_coder(marker: str, source: Source, tools: Tools) -> Wait[None]:
    """`<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`, or JSON after all."""
    if marker == "<tool_call>":
        yield from spaces(source)
        if not (yield from accept(source, "<function=")):
            if (yield from objects(source, tools)):
                yield from until(source, ("</tool_call>",), jsonstream.ignore)
            return
    name, _ = yield from collect(source, ">")
    if not name.strip() or "\n" in name:
        return
    arguments = _Arguments(tools, name.strip())
    while (yield from until(source, ("<parameter=", "</function>"), jsonstream.ignore)) == "<parameter=":
        key, _ = yield from collect(source, ">")
        yield from _argument(source, key.strip(), arguments, "</parameter>")
    arguments.end()
    yield from spaces(source)
    yield from accept(source, "</tool_call>")


def glm(_marker: str, source: Source, tools: Tools) -> Wait[None]:
    """`<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`."""
    yield from spaces(source)
    if (yield from peek(source)) in "{[":
        if (yield from objects(source, tools)):
            yield from until(source, ("</tool_call>",), jsonstream.ignore)
        return
    name, tag = yield from collect(source, "<arg_key>", "</tool_call>")
    if not tag or not name.strip():
        return
    arguments = _Arguments(tools, name.strip())
    while tag == "<arg_key>":
        key, _ = yield from collect(source, "</arg_key>")
        yield from until(source, ("<arg_value>",), jsonstream.ignore)
        yield from _argument(source, key.strip(), arguments, "</arg_value>")
        tag = yield from until(source, ("<arg_key>", "</tool_call>"), jsonstream.ignore)
    arguments.end()


def _argument(source: Source, key: str, arguments: _Arguments, close: str) -> Wait[None]:
    arguments.key(key)
    if arguments.is_text(key):
        arguments.quote()
        yield from until(source, (close,), _Lines(arguments))
        arguments.quote()
    else:
        text, _ = yield from collect(source, close)
        arguments.value(text.removeprefix("\n").removesuffix("\n"))
