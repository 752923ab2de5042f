"""Tensors of a GGUF file as MLX arrays, packed where MLX has the same format.

MLX's affine packing with group size 32 holds Q4_0, Q4_1 and Q8_0 without loss: uint32 words, and
f16 scale and bias per group. Every other block format is dequantised by the `gguf` package.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
from gguf import quants
from gguf.constants import GGMLQuantizationType as Kind

from stoker.core.errors import StartError
from stoker.models.gguf_file import GgufFile, TensorEntry

GROUP = 32
BITS = {Kind.Q4_0: 4, Kind.Q4_1: 4, Kind.Q8_0: 8}
"""Formats that stay packed, with their bits."""
PLAIN = {Kind.F32: np.float32, Kind.F16: np.float16}


@dataclass(frozen=True, slots=True)
class Packed:
    """`words` uint32 (rows, columns * bits / 32); `scales`, `biases` float16 (rows, columns / 32)."""

    words: mx.array
    scales: mx.array
    biases: mx.array
    bits: int


Weight = Packed | mx.array


def is_native(file: GgufFile) -> bool:
    """True if `mx.load` reads this file as it is: what it does not know it drops, rounds to f16 or fails on."""
    return not file.has_doubles and all(tensor.kind in BITS or tensor.kind in PLAIN for tensor in file.tensors)


def read_native(file: GgufFile, wanted: Iterable[TensorEntry]) -> Iterator[tuple[TensorEntry, Weight]]:
    """The wanted tensors through `mx.load`. Raises StartError if it cannot read the file."""
    try:
        loaded = mx.load(str(file.path), format="gguf")
    except RuntimeError as error:
        raise StartError(f"cannot read {file.path}: {error}") from error
    if not isinstance(loaded, dict):
        raise StartError(f"cannot read {file.path}: it holds no named tensors")
    for tensor in wanted:
        stem = tensor.name.removesuffix(".weight")
        found = loaded[tensor.name]
        if tensor.kind in BITS:
            yield tensor, Packed(found, loaded[f"{stem}.scales"], loaded[f"{stem}.biases"], BITS[tensor.kind])
        else:
            yield tensor, found


def read_mixed(file: GgufFile, wanted: Iterable[TensorEntry]) -> Iterator[tuple[TensorEntry, Weight]]:
    """The wanted tensors one after the other: packed, plain, or dequantised to float32."""
    for tensor in wanted:
        yield tensor, _convert(file.path, tensor)


def _convert(path: Path, tensor: TensorEntry) -> Weight:
    stored = np.memmap(path, np.uint8, "r", tensor.offset, (tensor.nbytes,))
    if tensor.kind in PLAIN:
        return mx.array(stored.view(PLAIN[tensor.kind]).reshape(tensor.shape))
    rows = stored.reshape(*tensor.shape[:-1], -1)
    if tensor.kind in BITS and len(tensor.shape) == 2:
        return _pack(rows, tensor.kind)
    try:
        return mx.array(quants.dequantize(rows, tensor.kind).reshape(tensor.shape))
    except NotImplementedError as error:
        raise StartError(f"{path}: format {tensor.kind.name} of tensor {tensor.name} is not supported") from error


def _pack(rows: np.ndarray, kind: Kind) -> Packed:
    """ggml's blocks of 32 as MLX's groups of 32: the same numbers in another order."""
    count = rows.shape[0]
    header = 4 if kind is Kind.Q4_1 else 2
    block = header + GROUP * BITS[kind] // 8
    blocks = rows.reshape(count, -1, block)
    floats = np.ascontiguousarray(blocks[..., :header]).view(np.float16)
    values = blocks[..., header:]
    scales = np.ascontiguousarray(floats[..., 0])
    if kind is Kind.Q8_0:
        # Signed bytes become unsigned ones; the bias takes the shift back.
        words, biases = values ^ 0x80, scales * np.float16(-128)
    else:
        words = _interleave(values)
        biases = np.ascontiguousarray(floats[..., 1]) if kind is Kind.Q4_1 else scales * np.float16(-8)
    packed = np.ascontiguousarray(words).reshape(count, -1).view(np.uint32)
    return Packed(mx.array(packed), mx.array(scales), mx.array(biases), BITS[kind])


def _interleave(values: np.ndarray) -> np.ndarray:
    """ggml keeps element i with i + 16 in a byte, MLX element 2i with 2i + 1; `values` is (…, 16) bytes."""
    elements = np.concatenate([values & 0x0F, values >> 4], axis=-1)
    return elements[..., 0::2] | (elements[..., 1::2] << 4)
