"""How keys and values are stored: as the model makes them, as another float, or packed in groups of 32 small numbers.

llama.cpp's names stand for MLX's affine packing with so many bits: a scale and an offset for each group, in the
model's own type. A packed column is a row of 32-bit words, so whatever is done to columns is done to these.
"""

from dataclasses import dataclass

import mlx.core as mx

from stoker.core.errors import StartError

GROUP = 32
BITS = {"q8_0": 8, "q5_0": 5, "q5_1": 5, "q4_0": 4, "q4_1": 4, "iq4_nl": 4}
FLOATS = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
WORD = 32
"""Bits."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Numbers of `bits` each. One column is the packed numbers, then the scales and the offsets."""

    bits: int

    def pack(self, x: mx.array) -> mx.array:
        """[..., D] to uint32 [..., words]. StartError where D is no multiple of 32."""
        if x.shape[-1] % GROUP:
            raise StartError(
                f"--cache-type-k, -v: heads of {x.shape[-1]} numbers cannot be packed in groups of {GROUP}"
            )
        numbers, scales, offsets = mx.quantize(x, group_size=GROUP, bits=self.bits)
        rest = mx.contiguous(mx.concatenate([scales, offsets], axis=-1))
        return mx.concatenate([numbers, rest.view(mx.uint32)], axis=-1)

    def unpack(self, words: mx.array, dtype: mx.Dtype, width: int) -> mx.array:
        """What `pack` stored of `width` numbers of that type, as near as the bits allow."""
        cut = width * self.bits // WORD
        rest = mx.contiguous(words[..., cut:]).view(dtype)
        scales, offsets = mx.split(rest, 2, axis=-1)
        return mx.dequantize(words[..., :cut], scales, offsets, group_size=GROUP, bits=self.bits)


@dataclass(frozen=True, slots=True)
class Cast:
    """Floats of another type."""

    dtype: mx.Dtype

    def pack(self, x: mx.array) -> mx.array:
        return x.astype(self.dtype)

    def unpack(self, stored: mx.array, dtype: mx.Dtype, width: int) -> mx.array:
        return stored.astype(dtype)


@dataclass(frozen=True, slots=True)
class KVTypes:
    """None: as the model makes them."""

    keys: Packing | Cast | None = None
    values: Packing | Cast | None = None

    @classmethod
    def of(cls, keys: str, values: str) -> "KVTypes":
        """By llama.cpp's names; an empty one means the model's own type. KeyError for one that is none."""
        return cls(_of(keys), _of(values))

    def __str__(self) -> str:
        return f"keys {self.keys}, values {self.values}"


def _of(name: str) -> Packing | Cast | None:
    if not name:
        return None
    return Cast(FLOATS[name]) if name in FLOATS else Packing(BITS[name])
