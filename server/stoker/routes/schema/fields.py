"""One request field as data, and how llama-server reads it: aliases, null, types, soft and hard domains."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from stoker.core.errors import InvalidRequest

INT_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
FLOAT_MAX = 3.4028234663852886e38
"""The largest float32."""


T = TypeVar("T", bool, str)


class Type(StrEnum):
    """What a field holds; the value is the JSON library's word for it."""

    INT = "number"
    FLOAT = "float"
    BOOL = "boolean"
    STRING = "string"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Field:
    """`names` in order of precedence, the canonical one first. Without `low` there is no domain."""

    names: tuple[str, ...]
    type: Type
    low: float | None = None
    high: float = INT_MAX
    soft: bool = False
    """True: clamp silently. False: a value outside is a 400."""
    booleans: bool = True
    """A number field takes true and false as 1 and 0."""


def type_name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def type_error(expected: str, value: object) -> str:
    return f"[json.exception.type_error.302] type must be {expected}, but is {type_name(value)}"


def field_error(name: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"Field '{name}': {message}")


def find(body: Mapping[str, object], names: Sequence[str]) -> tuple[str, object] | None:
    """The first name that is there and not null, and its value."""
    for name in names:
        if (value := body.get(name)) is not None:
            return name, value
    return None


def read_number(body: Mapping[str, object], field: Field, default: float) -> float:
    """Integers for INT (a fraction is cut off), float32-sized floats for FLOAT."""
    found = find(body, field.names)
    if found is None:
        return default
    name, value = found
    if not isinstance(value, int | float) or (isinstance(value, bool) and not field.booleans):
        raise field_error(name, type_error("number", value))
    if field.type is Type.INT:
        return _inside(field, name, int(value))
    return _inside(field, name, max(-FLOAT_MAX, min(float(value), FLOAT_MAX)))


def read_int(body: Mapping[str, object], field: Field, default: int) -> int:
    return int(read_number(body, field, default))


def read_bool(body: Mapping[str, object], name: str, default: bool) -> bool:
    found = find(body, (name,))
    if found is None:
        return default
    if not isinstance(found[1], bool):
        raise field_error(name, type_error("boolean", found[1]))
    return found[1]


def read_string(body: Mapping[str, object], name: str, default: str) -> str:
    found = find(body, (name,))
    if found is None:
        return default
    if not isinstance(found[1], str):
        raise field_error(name, type_error("string", found[1]))
    return found[1]


def read_array(body: Mapping[str, object], name: str) -> list[object] | None:
    """None when absent."""
    found = find(body, (name,))
    if found is None:
        return None
    if not isinstance(found[1], list):
        raise field_error(name, type_error("array", found[1]))
    return cast("list[object]", found[1])


def lenient(body: Mapping[str, object], name: str, default: T) -> T:
    """A flag or text read outside the schema: a wrong type falls back to the default."""
    value = body.get(name)
    return value if isinstance(value, type(default)) else default


def lenient_int(body: Mapping[str, object], name: str, default: int) -> int:
    """A number read outside the schema, a fraction cut off."""
    value = body.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def widen(value: float) -> float:
    """What a float32 of this value prints as."""
    return struct.unpack("f", struct.pack("f", value))[0]


def _inside(field: Field, name: str, value: float) -> float:
    if field.low is None:
        return max(-INT_MAX - 1, min(value, INT_MAX)) if field.type is Type.INT else value
    if field.soft:
        return type(value)(max(field.low, min(value, field.high)))
    if field.low <= value <= field.high:
        return value
    shown = "{:.6f}" if field.type is Type.FLOAT else "{:.0f}"
    low, high, got = (shown.format(number) for number in (field.low, field.high, value))
    raise field_error(name, f"Value must be between {low} <= value <= {high}, but got {got}")
