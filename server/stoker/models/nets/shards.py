"""Tensors of a checkpoint's shards by name, as they are written there: for drafters that need only some of them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx

from stoker.core.errors import StartError


@dataclass(frozen=True, slots=True)
class Shards:
    path: Path
    config: Mapping[str, Any]
    tensors: dict[str, mx.array]
    """Still on disk."""
    mlx: bool
    """True: MLX wrote the files, so nothing in them waits to be converted."""


def _all(name: str) -> bool:
    return True


def read_config(path: Path) -> Mapping[str, Any]:
    """A directory's config.json. Raises StartError, one line."""
    file = path.expanduser() / "config.json"
    try:
        return cast("Mapping[str, Any]", json.loads(file.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise StartError(f"cannot read {file}: {error}") from error


def read(path: Path, wanted: Callable[[str], bool] = _all) -> Shards:
    """The tensors of a directory whose names are wanted; possibly none. Raises StartError, one line.

    What a file holds its own header says: an index may name what a conversion has dropped.
    """
    place = path.expanduser()
    tensors: dict[str, mx.array] = {}
    formats: set[str] = set()
    config = read_config(path)
    try:
        for file in sorted(place.glob("*.safetensors")):
            found, metadata = cast("tuple[dict[str, mx.array], dict[str, str]]", mx.load(str(file), None, True))
            mine = {name: tensor for name, tensor in found.items() if wanted(name)}
            tensors |= mine
            formats |= {metadata.get("format", "")} if mine else set()
    except (OSError, RuntimeError) as error:
        raise StartError(f"cannot load the drafter {path}: {(str(error).splitlines() or [repr(error)])[0]}") from error
    return Shards(place, config, tensors, formats == {"mlx"})
