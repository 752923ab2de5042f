"""JSON in and out: request bodies as llama-server's library reads them, answers as it writes them."""

import json
import math
import re
from collections.abc import Mapping
from typing import cast

from starlette.requests import Request

from stoker.core.errors import ServerFault
from stoker.routes.schema.jsonlex import Parser

Json = dict[str, object]

_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LONE = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half a character, which Python lets pass; suspects only, as the backslash may itself be escaped."""


DEEPEST = 200
"""Levels of a value. Much that reads one calls itself at each, and Python allows about a thousand calls."""
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
"""Brackets, and strings so that those in them are passed over."""


class _NotJsonError(ValueError):
    """A word that only Python takes for a number."""


def parse(text: bytes) -> object:
    """The value of a JSON text; ServerFault (500) with the library's words if it is none."""
    if _depth(text) > DEEPEST:
        raise ServerFault("[json.exception.parse_error.101] parse error: the value is nested too deeply")
    try:
        value: object = json.loads(
            text.decode("utf-8-sig"), parse_constant=_refuse, parse_float=_finite, parse_int=_int
        )
    except OverflowError as error:
        raise ServerFault(str(error)) from None
    except ValueError as error:
        complaint = Parser(text).complaint() or f"parse error: {error}"
        raise ServerFault(f"[json.exception.parse_error.101] {complaint}") from None
    if b"\\u" in text and _LONE.search(_PAIR.sub(b"", text)) and (complaint := Parser(text).complaint()):
        raise ServerFault(f"[json.exception.parse_error.101] {complaint}")
    return value


async def read(request: Request) -> object:
    """The request's body, whatever its Content-Type says."""
    return parse(await request.body())


def members(value: object) -> Mapping[str, object]:
    """An object's members; anything else has none."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def dump(value: object) -> bytes:
    """Compact JSON in insertion order, characters unescaped; a number that is not finite becomes null."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_tame(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace")


def _depth(text: bytes) -> int:
    """Levels of a text's value, or less where the text has too few brackets for many."""
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return 0
    depth = deepest = 0
    for found in _NESTING.finditer(text):
        if (bracket := found[0]) in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif bracket in (b"]", b"}"):
            depth -= 1
    return deepest


def _refuse(constant: str) -> object:
    raise _NotJsonError(constant)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise OverflowError(f"[json.exception.out_of_range.406] number overflow parsing '{text}'")
    return value


def _int(text: str) -> int | float:
    """Integers beyond 64 bits are floats there."""
    if len(text) > 20:
        return _finite(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(value)


def _tame(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _tame(item) for key, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_tame(item) for item in cast("list[object]", value)]
    return value
