"""Reads a GGUF file's header: metadata and the table of tensors. Knows no MLX and no architecture.

The format is ggml's docs/gguf.md, versions 2 and 3, little-endian. The `gguf` package's own reader
builds a NumPy view for every string, which takes seconds on a vocabulary; this one takes
a tenth of one, and checks every offset against the file's end.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from stoker.core.errors import StartError

MAGIC = b"GGUF"
DEFAULT_ALIGNMENT = 32
STRING, ARRAY, DOUBLE = 8, 9, 12
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", DOUBLE: "d"}
"""GGUF value type → struct format character."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    """In NumPy's order: rows first."""
    offset: int
    """Bytes from the start of the file."""
    nbytes: int

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class GgufFile:
    path: Path
    metadata: dict[str, object]
    tensors: tuple[TensorEntry, ...]
    has_doubles: bool
    """True: some metadata value is a float64, which `mx.load` 0.32 cannot read (it crashes)."""


class _TruncatedError(Exception):
    pass


class _Cursor:
    """Reads values one after the other and never past the end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0
        self.saw_double = False

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise _TruncatedError
        chunk = self.data[self.at : end]
        self.at = end
        return chunk

    def numbers(self, code: str, count: int) -> tuple[int | float | bool, ...]:
        return struct.unpack(f"<{count}{code}", self.take(struct.calcsize(f"<{code}") * count))

    def integer(self, code: str) -> int:
        return int(self.numbers(code, 1)[0])

    def string(self) -> str:
        return self.take(self.integer("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> object:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self.array(self.integer("I"), self.integer("Q"))
        return self.scalars(kind, 1)[0]

    def array(self, kind: int, count: int) -> list[object]:
        if kind == STRING:
            return [self.string() for _ in range(count)]
        if kind == ARRAY:
            return [self.value(kind) for _ in range(count)]
        return list(self.scalars(kind, count))

    def scalars(self, kind: int, count: int) -> tuple[int | float | bool, ...]:
        if kind not in SCALARS:
            raise ValueError(f"unknown metadata value type {kind}")
        self.saw_double = self.saw_double or kind == DOUBLE
        return self.numbers(SCALARS[kind], count)


def read_header(path: Path) -> GgufFile:
    """Raises StartError, with one line, for a file that is not a whole GGUF file."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise StartError(f"{path} is not a GGUF file: it does not begin with the letters GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(path, data)
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}") from error
    except _TruncatedError as error:
        raise StartError(f"{path} is cut short: its header ends past the end of the file; fetch it again") from error
    except (ValueError, KeyError) as error:
        raise StartError(f"{path} is not a readable GGUF file: {error}") from error


def _parse(path: Path, data: mmap.mmap) -> GgufFile:
    cursor = _Cursor(data)
    cursor.take(len(MAGIC))
    version = cursor.integer("I")
    if version not in (2, 3):
        raise ValueError(f"version {version} (2 and 3 are read, little-endian)")
    n_tensors, n_values = cursor.integer("Q"), cursor.integer("Q")
    metadata = _each(n_values, lambda: (cursor.string(), cursor.value(cursor.integer("I"))))
    entries = [_entry(cursor) for _ in range(n_tensors)]
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"alignment {alignment!r}")
    start = -(-cursor.at // alignment) * alignment
    tensors = tuple(
        TensorEntry(entry.name, entry.kind, entry.shape, start + entry.offset, entry.nbytes) for entry in entries
    )
    _check_length(path, len(data), tensors)
    return GgufFile(path, metadata, tensors, cursor.saw_double)


def _each(count: int, read: Callable[[], tuple[str, object]]) -> dict[str, object]:
    return dict(read() for _ in range(count))


def _entry(cursor: _Cursor) -> TensorEntry:
    """One row of the tensor table; its offset still counts from the start of the tensors."""
    name = cursor.string()
    shape = tuple(int(size) for size in reversed(cursor.numbers("Q", cursor.integer("I"))))
    kind = GGMLQuantizationType(cursor.integer("I"))
    entry = TensorEntry(name, kind, shape, cursor.integer("Q"), 0)
    block, width = GGML_QUANT_SIZES[kind]
    if shape and shape[-1] % block:
        raise ValueError(f"rows of tensor {name} are no multiple of {block}")
    return TensorEntry(name, kind, shape, entry.offset, entry.elements // block * width)


def _check_length(path: Path, length: int, tensors: tuple[TensorEntry, ...]) -> None:
    missing = max((tensor.offset + tensor.nbytes for tensor in tensors), default=0) - length
    if missing > 0:
        raise StartError(f"{path} is cut short: {missing} bytes of its tensors are missing; fetch it again")
