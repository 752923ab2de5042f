"""What a Hugging Face directory says about its tokenizer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import tokenizers

from stoker.core.errors import StartError

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DirectoryTokenizer:
    engine: tokenizers.Tokenizer
    ids: Mapping[str, int]
    vocab: int
    added: frozenset[int]
    """Ids of tokens that are spelt as they read."""
    special: frozenset[int]
    """Those of them that are hidden from text."""
    byte_level: bool
    bos: int | None
    eos: int | None
    declared_ends: frozenset[int]
    adds_bos: bool


def read_directory(path: Path) -> DirectoryTokenizer:
    """Raises StartError without a readable tokenizer.json."""
    document = _document(path)
    engine = _engine(path, document)
    ids = engine.get_vocab(with_added_tokens=True)
    settings = {**_json(path / "special_tokens_map.json"), **_json(path / "tokenizer_config.json")}
    added = engine.get_added_tokens_decoder()
    bos, eos = _named(settings, "bos_token", ids), _named(settings, "eos_token", ids)
    declared = {eos, *_numbers(_json(path / "config.json")), *_numbers(_json(path / "generation_config.json"))}
    return DirectoryTokenizer(
        engine=engine,
        ids=ids,
        vocab=max(ids.values(), default=-1) + 1,
        added=frozenset(added),
        special=frozenset(id for id, token in added.items() if token.special),
        byte_level=_mentions(document.get("decoder"), "ByteLevel"),
        bos=bos,
        eos=eos,
        declared_ends=frozenset(id for id in declared if id is not None),
        adds_bos=bos is not None and engine.encode("", add_special_tokens=True).ids[:1] == [bos],
    )


def _document(path: Path) -> dict[str, object]:
    file = path / "tokenizer.json"
    if not file.exists():
        raise StartError(f"{path} holds no tokenizer.json: save the tokenizer with transformers first")
    document = _json(file)
    model = document.get("model")
    if not isinstance(model, dict):
        raise StartError(f"{file} describes no tokenizer")
    document["truncation"] = document["padding"] = None
    return document


def _engine(path: Path, document: Settings) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(document))
    except Exception as error:  # the library raises nothing more precise
        raise StartError(f"{path / 'tokenizer.json'} cannot be read: {error}") from error


def _json(path: Path) -> dict[str, object]:
    """Empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        return cast("dict[str, object]", json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise StartError(f"{path} is no JSON: {error}") from error


def _named(settings: Settings, name: str, ids: Mapping[str, int]) -> int | None:
    value = settings.get(name)
    if isinstance(value, dict):
        value = cast("Settings", value).get("content")
    return ids.get(value) if isinstance(value, str) else None


def _numbers(settings: Settings) -> list[int]:
    value = settings.get("eos_token_id")
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, int)]


def _mentions(decoder: object, kind: str) -> bool:
    """True if a decoder, or a part of it, is of this type."""
    if not isinstance(decoder, dict):
        return False
    settings = cast("Settings", decoder)
    parts = settings.get("decoders")
    inner = cast("list[object]", parts) if isinstance(parts, list) else []
    return settings.get("type") == kind or any(_mentions(part, kind) for part in inner)
