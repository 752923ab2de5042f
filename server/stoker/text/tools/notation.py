"""Calls in a notation of their own, read once they are whole: Python's (LFM2, Llama 4), and Gemma's."""

import ast
import json
import re
import warnings
from collections.abc import Callable

from stoker.text import jsonstream
from stoker.text.source import Source, Wait, collect, peek, spaces, until
from stoker.text.tools.format import Tools
from stoker.text.tools.json_calls import objects

Reader = Callable[[str, Source, Tools], Wait[None]]
_JSON_LIKE = re.compile(r'\[?\s*\{\s*"')


def pythonic(close: str) -> Reader:
    """`[f(x=1), g(y="a")]` up to the closing tag; or JSON, which some of these models also write."""

    def read(_marker: str, source: Source, tools: Tools) -> Wait[None]:
        yield from spaces(source)
        if (yield from peek(source)) == "{":
            if (yield from objects(source, tools)):
                yield from until(source, (close,), jsonstream.ignore)
            return
        text, _ = yield from collect(source, close)
        found = _json_calls(text) if _JSON_LIKE.match(text) else python_calls(text)
        for name, arguments in found or ():
            tools.call(name, json.dumps(arguments, ensure_ascii=False))

    return read


def python_calls(text: str) -> list[tuple[str, dict[str, object]]] | None:
    """Calls in a list, or one alone; None if the text is something else."""
    try:
        with warnings.catch_warnings():
            # Odd escapes in a string are the model's affair.
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
    found = [_call(node) for node in nodes]
    calls = [call for call in found if call is not None]
    return calls if calls and len(calls) == len(found) else None


def python_call(text: str) -> tuple[str, dict[str, object]] | None:
    """One call; None if the text is something else."""
    calls = python_calls(text)
    return calls[0] if calls is not None and len(calls) == 1 else None


def _call(node: ast.expr) -> tuple[str, dict[str, object]] | None:
    if not isinstance(node, ast.Call) or node.args:
        return None
    arguments: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            return None
        try:
            arguments[keyword.arg] = _plain(keyword.value)
            json.dumps(arguments[keyword.arg], allow_nan=False)
        except (ValueError, TypeError):
            return None
    return ast.unparse(node.func), arguments


def _plain(node: ast.expr) -> object:
    """A literal; JSON's words for true, false and null are names to Python."""
    words = {"true": True, "false": False, "null": None}
    if isinstance(node, ast.Name) and node.id in words:
        return words[node.id]
    return ast.literal_eval(node)


def _json_calls(text: str) -> list[tuple[str, object]]:
    found = jsonstream.parsed(text)
    entries = [jsonstream.members(entry) for entry in jsonstream.items(found) or (found,)]
    return [(name, entry.get("arguments", {})) for entry in entries if isinstance(name := entry.get("name"), str)]


# Gemma


def gemma(close: str, quote: str) -> Reader:
    """`call:name{key:value,…}` up to the closing tag; texts stand between two of `quote`."""

    def read(_marker: str, source: Source, tools: Tools) -> Wait[None]:
        text, _ = yield from collect(source, close)
        found = re.fullmatch(r"\s*call:\s*([\w.-]+)\s*(\{.*\})\s*", text, re.DOTALL)
        if found is None:
            return
        try:
            value, rest = _gemma_value(found[2], quote)
        except (ValueError, IndexError, RecursionError):
            return
        if not rest.strip():
            tools.call(found[1], json.dumps(value, ensure_ascii=False))

    return read


def _gemma_value(text: str, quote: str) -> tuple[object, str]:
    """The value that the text begins with, and what is behind it. Raises ValueError or IndexError."""
    text = text.lstrip()
    if text.startswith(quote):
        inside, end, rest = text[len(quote) :].partition(quote)
        if not end:
            raise ValueError(text)
        return inside, rest
    if text.startswith('"'):
        value, end = json.JSONDecoder().raw_decode(text)
        return value, text[end:]
    if text[0] == "{":
        return _gemma_object(text[1:], quote)
    if text[0] == "[":
        return _gemma_list(text[1:], quote)
    word = re.match(r"[^,}\]]+", text)
    if word is None:
        raise ValueError(text)
    given = word[0].strip()
    found = jsonstream.parsed(given)
    return (given if found is None and given != "null" else found), text[word.end() :]


def _gemma_object(text: str, quote: str) -> tuple[object, str]:
    members: dict[str, object] = {}
    while not (text := text.lstrip().removeprefix(",").lstrip()).startswith("}"):
        key, colon, text = text.removeprefix(quote).partition(":")
        if not colon:
            raise ValueError(text)
        members[key.removesuffix(quote).strip().strip('"')], text = _gemma_value(text, quote)
    return members, text[1:]


def _gemma_list(text: str, quote: str) -> tuple[object, str]:
    items: list[object] = []
    while not (text := text.lstrip().removeprefix(",").lstrip()).startswith("]"):
        item, text = _gemma_value(text, quote)
        items.append(item)
    return items, text[1:]
