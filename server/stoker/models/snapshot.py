"""A slot's content on the host: what the prompt cache keeps and what a slot file holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """One array as bytes: numpy has no bfloat16."""

    dtype: str
    """MLX's name of it, as `mlx.core.bfloat16`."""
    shape: Shape
    data: np.ndarray
    """uint8, flat."""

    @classmethod
    def of(cls, array: mx.array) -> "Block":
        return cls(str(array.dtype), array.shape, np.array(mx.contiguous(array).reshape(-1).view(mx.uint8)))

    def array(self) -> mx.array:
        """KeyError for a type that no cache has, ValueError for bytes that do not fill the shape."""
        return mx.array(self.data).view(DTYPES[self.dtype]).reshape(self.shape)


DTYPES: dict[str, mx.Dtype] = {
    str(kind): kind for kind in (mx.float32, mx.float16, mx.bfloat16, mx.uint8, mx.uint32, mx.int32, mx.int8)
}
"""Types that caches use, by name."""


@dataclass(frozen=True)
class Snapshot:
    """Blocks by layer, and the number of columns that they hold."""

    length: int
    layers: tuple[tuple[Block, ...], ...]

    @classmethod
    def of(cls, layers: Sequence[Sequence[mx.array]], length: int) -> "Snapshot":
        """Waits for the device once."""
        mx.eval([list(parts) for parts in layers])
        return cls(length, tuple(tuple(Block.of(part) for part in parts) for parts in layers))

    @property
    def forms(self) -> list[tuple[tuple[str, Shape], ...]]:
        """Types and shapes, to be held against a model's."""
        return [tuple((block.dtype, block.shape) for block in blocks) for blocks in self.layers]

    def arrays(self) -> list[list[mx.array]]:
        return [[block.array() for block in blocks] for blocks in self.layers]
