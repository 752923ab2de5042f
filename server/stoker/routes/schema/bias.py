"""`logit_bias` in all its spellings, resolved to token ids."""

import math
from collections.abc import Iterator
from typing import cast

from stoker.routes.service import Tokenizer

Biases = tuple[tuple[int, float], ...]


def read_bias(value: object, tokenizer: Tokenizer) -> Biases:
    """`[[id or text, number or false], …]` or an object of the same; entries of any other form are skipped."""
    return tuple(
        (token, bias)
        for key, weight in _entries(value)
        if (bias := _bias(weight)) is not None
        for token in _tokens(key, tokenizer)
    )


def _entries(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, dict):
        for key, weight in cast("dict[str, object]", value).items():
            yield _id_or_text(key), weight
    elif isinstance(value, list):
        for entry in cast("list[object]", value):
            if isinstance(entry, list) and len(pair := cast("list[object]", entry)) == 2:
                yield pair[0], pair[1]


def _id_or_text(key: str) -> object:
    """An object's key is a number in disguise, unless something else follows the digits."""
    return int(key) if key.removeprefix("-").isdecimal() and key.isascii() and len(key) < 12 else key


def _bias(weight: object) -> float | None:
    if weight is False:
        return -math.inf
    if isinstance(weight, int | float) and not isinstance(weight, bool):
        return float(weight)
    return None


def _tokens(key: object, tokenizer: Tokenizer) -> list[int]:
    if isinstance(key, str):
        return tokenizer.encode(key, add_special=False, parse_special=False)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < tokenizer.vocab:
        return [key]
    return []
