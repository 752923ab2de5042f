"""Slot files: one slot's tokens and columns on disk, in a format of our own.

    magic (8 bytes) | version u32 | header's length u32 | header's CRC-32 u32 | header, JSON | blocks

All numbers are little-endian. The header names the model, the tokens, and type, shape and length of every
block; its last field is the CRC-32 of the blocks. A file appears whole or not at all, and one that is not
exactly as it was written, or is of another model, is refused before anything is changed.
"""

import json
import struct
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stoker.models.snapshot import Block, Snapshot

MAGIC = b"STOKSLOT"
VERSION = 1
LEAD = struct.Struct("<8sIII")
LARGEST_HEADER = 64 * 2**20


class SlotFileError(Exception):
    """Not a slot file, not a whole one, or one of another model."""


@dataclass(frozen=True)
class Held:
    """What a file holds."""

    tokens: tuple[int, ...]
    snapshot: Snapshot
    size: int
    """Of the file, bytes."""


def write(path: Path, model: str, tokens: Sequence[int], snapshot: Snapshot) -> int:
    """Returns the file's size in bytes. OSError where it cannot be written; then an older file is as it was."""
    crc = 0
    for block in _blocks(snapshot):
        crc = zlib.crc32(block.data.data, crc)
    layers = [[[block.dtype, list(block.shape), block.data.nbytes] for block in layer] for layer in snapshot.layers]
    facts = {"model": model, "tokens": list(tokens), "columns": snapshot.length, "layers": layers, "crc": crc}
    header = json.dumps(facts, separators=(",", ":")).encode()
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as place:
        new = Path(place) / path.name
        with new.open("wb") as file:
            file.write(LEAD.pack(MAGIC, VERSION, len(header), zlib.crc32(header)))
            file.write(header)
            for block in _blocks(snapshot):
                file.write(block.data.data)
        size = new.stat().st_size
        new.replace(path)
    return size


def read(path: Path, model: str) -> Held:
    """Raises SlotFileError, and OSError where it cannot be read at all."""
    data = np.fromfile(path, np.uint8)
    start = _header_end(data)
    try:
        facts = json.loads(data[LEAD.size : start].tobytes())
        if facts["model"] != model:
            raise SlotFileError("it is of another model")
        tokens = tuple(map(int, facts["tokens"]))
        snapshot, stop = _snapshot(facts, data, start)
        whole = stop == data.nbytes and zlib.crc32(data[start:].data) == facts["crc"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SlotFileError(f"its header is not ours: {error!r}") from None
    if not whole or snapshot.length != len(tokens):
        raise SlotFileError("it is not whole")
    return Held(tokens, snapshot, data.nbytes)


def _header_end(data: np.ndarray) -> int:
    if data.nbytes < LEAD.size:
        raise SlotFileError("it is too short")
    magic, version, length, crc = LEAD.unpack(data[: LEAD.size].tobytes())
    if magic != MAGIC or version != VERSION:
        raise SlotFileError("it is no slot file of this version")
    stop = LEAD.size + length
    header = data[LEAD.size : stop].tobytes()
    if length > LARGEST_HEADER or len(header) < length or zlib.crc32(header) != crc:
        raise SlotFileError("its header is cut or changed")
    return stop


def _snapshot(facts: dict[str, Any], data: np.ndarray, at: int) -> tuple[Snapshot, int]:
    layers: list[tuple[Block, ...]] = []
    for layer in facts["layers"]:
        blocks: list[Block] = []
        for dtype, shape, size in layer:
            blocks.append(Block(dtype, tuple(map(int, shape)), data[at : at + size]))
            at += size
        layers.append(tuple(blocks))
    return Snapshot(int(facts["columns"]), tuple(layers)), at


def _blocks(snapshot: Snapshot) -> list[Block]:
    return [block for layer in snapshot.layers for block in layer]
