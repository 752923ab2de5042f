"""Random JSON schemas with bounds everywhere, and a validator of our own for what they can say."""

import random
import re
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def random_schema(rng: random.Random, depth: int = 3) -> Schema:
    """Objects, arrays, strings, numbers, enums, constants, alternatives: nothing that could go on for ever."""
    kinds = ["string", "integer", "boolean", "null", "enum", "const"]
    if depth:
        kinds += ["object", "object", "object", "array", "array", "any"]
    return _MAKERS[rng.choice(kinds)](rng, depth)


def _object(rng: random.Random, depth: int) -> Schema:
    names = rng.sample(["name", "age", "x", "tags", "is ok", "k_9", "é"], rng.randint(1, 4))
    required = [name for name in names if rng.random() < 0.6]
    properties = {name: random_schema(rng, depth - 1) for name in names}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _array(rng: random.Random, depth: int) -> Schema:
    least = rng.randint(0, 2)
    return {
        "type": "array",
        "items": random_schema(rng, depth - 1),
        "minItems": least,
        "maxItems": least + rng.randint(0, 2),
    }


def _string(rng: random.Random, _: int) -> Schema:
    if rng.random() < 0.3:
        return {"type": "string", "pattern": rng.choice(["^[a-c]{2,4}$", "^(yes|no)$", "^[0-9]{3}-[0-9]{2}$"])}
    least = rng.randint(0, 4)
    return {"type": "string", "minLength": least, "maxLength": least + rng.randint(0, 8)}


def _integer(rng: random.Random, _: int) -> Schema:
    low = rng.randint(-50, 50)
    return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 1000)}


def _any(rng: random.Random, depth: int) -> Schema:
    return {"anyOf": [random_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]}


_MAKERS: Mapping[str, Any] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "boolean": lambda rng, _: {"type": "boolean"},
    "null": lambda rng, _: {"type": "null"},
    "enum": lambda rng, _: {"enum": rng.sample(["a", "bc", "ü", 'q"', 1, 2.5, None, True, [1, "x"], {"k": 0}], 3)},
    "const": lambda rng, _: {"const": rng.choice(["fixed", 42, None, [1, 2], {"a": {"b": 1}}])},
    "any": _any,
}


def fits(value: Any, schema: Schema) -> bool:
    """True if the value is one of the schema's, by JSON Schema's rules for the keywords used here."""
    if "anyOf" in schema:
        return any(fits(value, option) for option in schema["anyOf"])
    if "enum" in schema:
        return any(_same(value, option) for option in schema["enum"])
    if "const" in schema:
        return _same(value, schema["const"])
    return _CHECKS[schema["type"]](value, schema)


def _same(a: Any, b: Any) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _fits_object(value: Any, schema: Schema) -> bool:
    properties = schema["properties"]
    return (
        isinstance(value, dict)
        and set(schema["required"]) <= set(value) <= set(properties)
        and all(fits(item, properties[name]) for name, item in value.items())
    )


def _fits_array(value: Any, schema: Schema) -> bool:
    return (
        isinstance(value, list)
        and schema["minItems"] <= len(value) <= schema["maxItems"]
        and all(fits(item, schema["items"]) for item in value)
    )


def _fits_string(value: Any, schema: Schema) -> bool:
    if not isinstance(value, str):
        return False
    if "pattern" in schema:
        return re.search(schema["pattern"], value) is not None
    return schema.get("minLength", 0) <= len(value) <= schema["maxLength"]


def _fits_integer(value: Any, schema: Schema) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and schema.get("minimum", value) <= value <= schema.get("maximum", value)


_CHECKS: Mapping[str, Any] = {
    "object": _fits_object,
    "array": _fits_array,
    "string": _fits_string,
    "integer": _fits_integer,
    "boolean": lambda value, _: isinstance(value, bool),
    "null": lambda value, _: value is None,
}
