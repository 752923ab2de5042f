"""The texts with a grammar of their own: lists, sampler chains, biases, JSON, files. ValueError when malformed."""

import csv
import json
import math
import re
from pathlib import Path
from typing import cast

from stoker.core.request import DEFAULT_SAMPLERS
from stoker.text.schema import of_schema

SAMPLER_LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "a": "adaptive_p",
}
"""llama-server's letter for each sampler; its `i` (infill) is not built."""

SAMPLER_ALIASES = {
    "top-k": "top_k",
    "top-p": "top_p",
    "nucleus": "top_p",
    "top-n-sigma": "top_n_sigma",
    "typical": "typ_p",
    "typical-p": "typ_p",
    "typ": "typ_p",
    "typ-p": "typ_p",
    "min-p": "min_p",
    "temp": "temperature",
    "adaptive-p": "adaptive_p",
}
SAMPLER_NAMES = (*DEFAULT_SAMPLERS, "adaptive_p")

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"', "\\": "\\"}


def comma_list(text: str) -> tuple[str, ...]:
    """Words between commas, blanks around them and empty ones dropped; quotes protect a comma."""
    rows = list(csv.reader([text], skipinitialspace=True))
    return tuple(word.strip() for row in rows for word in row if word.strip())


def scaled_files(text: str) -> tuple[tuple[str, float], ...]:
    """`a:0.5,b:1`: names with a number each, between commas."""
    pairs: list[tuple[str, float]] = []
    for word in comma_list(text):
        name, _, scale = word.rpartition(":")
        if not name or not math.isfinite(float(scale)):
            raise ValueError(word)
        pairs.append((name, float(scale)))
    return tuple(pairs)


def sampler_names(text: str) -> tuple[str, ...]:
    """`top_k;temperature`: names in order, llama-server's alternative ones included."""
    names = tuple(SAMPLER_ALIASES.get(name.strip(), name.strip()) for name in text.split(";") if name.strip())
    if unknown := [name for name in names if name not in SAMPLER_NAMES]:
        raise ValueError(unknown[0])
    return names


def sampler_letters(text: str) -> tuple[str, ...]:
    """`kt`: one letter a sampler, in order."""
    if unknown := [letter for letter in text if letter not in SAMPLER_LETTERS]:
        raise ValueError(unknown[0])
    return tuple(SAMPLER_LETTERS[letter] for letter in text)


def logit_bias(text: str) -> tuple[tuple[int, float], ...]:
    """`15043+1`, `15043-inf`: a token id, a sign and an amount; several may stand between commas."""
    pairs: list[tuple[int, float]] = []
    for word in text.split(","):
        match = re.fullmatch(r"\s*([0-9]+)([+-])([0-9.]+(?:e[+-]?[0-9]+)?|inf)\s*", word)
        if match is None:
            raise ValueError(word)
        amount = math.inf if match[3] == "inf" else float(match[3])
        pairs.append((int(match[1]), amount if match[2] == "+" else -amount))
    return tuple(pairs)


def json_object(text: str) -> dict[str, object]:
    value: object = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return cast("dict[str, object]", value)


def schema(text: str) -> str:
    """The grammar of a JSON schema."""
    return of_schema(json_object(text))


def schema_file(path: str) -> str:
    return schema(file_text(path))


def file_text(path: str) -> str:
    """The file's text; OSError when it cannot be read."""
    return Path(path).read_text(encoding="utf-8")


def key_file(path: str) -> tuple[str, ...]:
    """One key a line; empty lines and lines that start with # are none."""
    lines = (line.strip() for line in file_text(path).splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def range_of_two(text: str) -> tuple[int, int]:
    """`0 12`: two whole numbers, first and last."""
    first, last = text.split()
    return int(first), int(last)


def one(text: str) -> tuple[str, ...]:
    """A list of one, for options that collect."""
    return (text,)


def unescape(text: str) -> str:
    """Backslash escapes as llama-server's `-e` reads them: n r t ' " \\ and xHH; any other stays as it is."""

    def replacement(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 3 else _ESCAPES[code]

    return re.sub(r"\\(x[0-9A-Fa-f]{2}|[nrt'\"\\])", replacement, text)
