"""Bodies that nobody should send, from a seed: right ones spoilt in one place, and bytes that are hardly JSON."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from compat import library

Value = Any

HI = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT: dict[str, Value] = {
    "prompt": "one two", "n_predict": 4, "temperature": 0.7, "top_k": 5, "seed": 3, "stop": ["x"], "n_probs": 2,
    "logit_bias": [[65, 1.5]], "samplers": ["top_k", "temperature"], "stream": False, "return_tokens": True,
    "grammar": 'root ::= "a"*', "dry_multiplier": 0.5, "repeat_penalty": 1.1, "speculative": {"n_max": 2}, "n_cmpl": 1,
    "response_fields": ["content"], "t_max_predict_ms": 500, "n_indent": 0, "id_slot": 0,
    "lora": [{"id": 0, "scale": 1}],
}  # fmt: skip
CHAT: dict[str, Value] = {
    "messages": HI, "max_tokens": 4, "tools": [TOOL], "tool_choice": "auto", "stream": True, "n": 1, "logprobs": True,
    "top_logprobs": 2, "stream_options": {"include_usage": True}, "chat_template_kwargs": {"enable_thinking": False},
    "reasoning_effort": "low", "reasoning_format": "auto", "parallel_tool_calls": True, "thinking_budget_tokens": 3,
}  # fmt: skip
FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}
BASES: dict[str, list[dict[str, Value]]] = {
    "completion": [TEXT, {"prompt": ["a", [65, 66]], "json_schema": SCHEMA, "n_predict": 4}],
    "chat": [CHAT, {"messages": HI, "max_tokens": 4, **FORMAT}],
    "responses": [{"input": "Hi", "max_output_tokens": 4, "instructions": "x", "stream": True, "tools": []}],
    "messages": [{"messages": HI, "max_tokens": 4, "system": [{"type": "text", "text": "x"}], "stream": False}],
    "infill": [
        {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"text": "c", "filename": "d"}], "n_predict": 4}
    ],
    "embedding": [{"input": ["a", "b"], "content": "a", "encoding_format": "float", "embd_normalize": 2}],
    "rank": [{"query": "a", "documents": ["b", "c"], "top_n": 1}],
    "tokenize": [{"content": "a b", "add_special": True, "with_pieces": True}, {"tokens": [65, 66]}],
    "slots": [{"filename": "fuzz"}],
    "lora-adapters": [[{"id": 0, "scale": 0.5}]],  # type: ignore[list-item]
    "control": [{"id": "chatcmpl-1", "action": "end_thought"}],
    "": [{"model": "M"}],
}
"""By a part of the path."""


def _numbers(random: Random) -> Value:
    return random.choice([0, 1, -1, 2**31, -(2**31) - 1, 2**63, 2**64, -(10**30), 1e308, -0.0, 5e-324, 0.1, 3.7])


def _texts(random: Random) -> Value:
    return random.choice(
        ["", "\0", "\ud800", "😀", "a" * 5000, "\x1b[0m", "{{", "{% for %}", "<|im_end|>", "../../x", "/etc/passwd",
         "é\u0301", 'root ::= root', 'root ::= "a"{1,99999}', 'root ::= ("" | root)*', "root ::= [", "(a+)+$",
         "none", "auto"]
    )  # fmt: skip


def _schemas(random: Random) -> Value:
    return random.choice(
        [{"$ref": "#"}, {"type": "array", "minItems": 10**9}, {"type": "string", "pattern": "(a+)+$"}, {"enum": []},
         {"anyOf": [{"$ref": "#/nope"}]}, {"type": "string", "maxLength": -1}, {"type": "nope"}, {"properties": []},
         True, False]
    )  # fmt: skip


def _deep(random: Random) -> Value:
    value: Value = random.choice([None, 1, "x"])
    for _ in range(random.choice([5, 60, 400])):
        value = [value] if random.random() < 0.5 else {random.choice("ab"): value}
    return value


def _many(random: Random) -> Value:
    return [random.choice([None, 1, "x", [], 10**12])] * random.choice([3, 300, 3000])


NASTY: list[Callable[[Random], Value]] = [
    _numbers, _texts, _schemas, _deep, _many,
    lambda random: random.choice([None, True, False, [], {}, [[]], [None], {"": None}]),
]  # fmt: skip


def spoil(value: Value, random: Random) -> Value:
    """The value with one place in it put wrong."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        match random.randrange(4):
            case 0:
                return {other: item for other, item in value.items() if other != key}
            case 1:
                return {
                    **value,
                    random.choice(["no_such", key.upper(), "", "\ud800", "self"]): random.choice(NASTY)(random),
                }
            case _:
                return {**value, key: spoil(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.7:
        place = random.randrange(len(value))
        return [*value[:place], spoil(value[place], random), *value[place + 1 :]]
    return random.choice(NASTY)(random)


BITS = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 400, b'"\\ud800"', b'"\\udc00\\ud800"', b"\xff\xfe", b"\xc3",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0", b"[" * 3000, b'{"a":' * 2000, b"//", b",", b"'", b"-", b"01", b'"\\x"',
    b"\n", b"tru", b"}", b'"',
)  # fmt: skip


def mangle(data: bytes, random: Random) -> bytes:
    """The bytes cut, or with something put into them."""
    place = random.randrange(len(data) + 1)
    match random.randrange(4):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + random.choice(BITS) + data[place:]
        case 2:
            end = min(place + random.randrange(1, 9), len(data))
            return data[:place] + random.choice(BITS) + data[end:]
        case _:
            return data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]


class Case(NamedTuple):
    path: str
    body: bytes


def paths() -> list[str]:
    """All that llama-server answers a POST on, whether Stoker does or not, with numbers of slots filled in."""
    posts = [key.removeprefix("POST ") for key in library.routes() if key.startswith("POST /")]
    named = [path for path in posts if ":" not in path]
    slots = [
        f"/slots/{id}?action={action}" for id in (0, 1, -1, 99, "x") for action in ("save", "restore", "erase", "no")
    ]
    return [*named, *slots]


def case(seed: int, where: list[str]) -> Case:
    """Always the same one for a seed."""
    random = Random(seed)
    path = random.choice(where)
    bases = next(bases for part, bases in BASES.items() if part in path)
    body: Value = random.choice(bases)
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        body = spoil(body, random)
    try:
        data = json.dumps(body, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    except RecursionError:
        data = b"[" * 3000
    return Case(path, mangle(data, random) if random.random() < 0.4 else data)
