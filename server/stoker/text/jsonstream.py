"""JSON values in a text that is still coming. Their own text passes through unchanged, so nothing is read twice."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from stoker.text.source import Sink, Source, Wait, peek

_SCALAR_END = re.compile(r"[\s,}\]]")
_STRUCTURE = re.compile(r'[{}\[\]"\\]')


def ignore(_text: str) -> None:
    """A sink for what nobody wants."""


def value(source: Source, sink: Sink) -> Wait[bool]:
    """Reads one value and passes its text on as it comes. False if there is none, or if it was cut off."""
    first = yield from peek(source)
    if first in "{[":
        return (yield from _nested(source, sink)) if first else False
    if first == '"':
        return (yield from _quoted(source, sink))
    return (yield from _scalar(source, sink))


def whole(source: Source) -> Wait[object]:
    """Reads one value and parses it; None if there is none, or if it is none of JSON's."""
    parts: list[str] = []
    yield from value(source, parts.append)
    return parsed("".join(parts))


def string(source: Source) -> Wait[str | None]:
    """Reads a string; None if the next value is something else."""
    first = yield from peek(source)
    if first != '"':
        return None
    found = yield from whole(source)
    return found if isinstance(found, str) else None


def members(value: object) -> Mapping[str, object]:
    """An object's members; anything else has none."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[object]:
    """An array's items; anything else has none."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()


def parsed(text: str) -> object:
    """The value of a JSON text, control characters in strings allowed; None where it is none."""
    try:
        return cast("object", json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None


def _nested(source: Source, sink: Sink) -> Wait[bool]:
    depth, quoted, skip = 0, False, False
    while True:
        text, at, size = source.text, 0, len(source.text)
        if skip and size:
            at, skip = 1, False
        while at < size:
            found = _STRUCTURE.search(text, at)
            if found is None:
                break
            sign, at = found[0], found.end()
            if sign == "\\" and quoted:
                skip, at = at == size, at + 1
            elif sign == '"':
                quoted = not quoted
            elif not quoted and sign != "\\":
                depth += 1 if sign in "{[" else -1
                if depth == 0:
                    sink(source.take(at))
                    return True
        sink(source.take(size))
        if source.ended:
            return False
        yield


def _quoted(source: Source, sink: Sink) -> Wait[bool]:
    sink(source.take(1))
    skip = False
    while True:
        text = source.text
        for at, sign in enumerate(text, 1):
            if skip:
                skip = False
            elif sign == "\\":
                skip = True
            elif sign == '"':
                sink(source.take(at))
                return True
        sink(source.take(len(text)))
        if source.ended:
            return False
        yield


def _scalar(source: Source, sink: Sink) -> Wait[bool]:
    some = False
    while True:
        end = _SCALAR_END.search(source.text)
        taken = source.take(end.start() if end else len(source.text))
        if taken:
            some = True
            sink(taken)
        if end or source.ended:
            return some
        yield
