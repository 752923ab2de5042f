"""Counter-based noise: a hash of (seed, position, purpose, token), the same in any batch, width and backend.

Formulas: specification of the drafters, section 5.1. There is no generator and so no state: nothing to save,
roll back or share between rows. **Changing one constant changes every seeded answer.**
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import partial

import mlx.core as mx

_MASK = 2**64 - 1


class Purpose(IntEnum):
    """What a random decision is for; decisions of different purposes at one position are independent."""

    DRAW = 0
    """The target's draw, and the coupled proposal that shares its noise."""
    PROPOSAL = 1
    ACCEPT = 2
    RESIDUAL = 3
    COIN = 4
    """XTC's: whether it acts at this position."""


def key(seed: int, position: int, purpose: int = Purpose.DRAW) -> tuple[int, int]:
    """(high, low) 32-bit halves of the key of one decision, computed on the host."""
    z = _mix(_mix(_mix(seed & _MASK) ^ position) ^ purpose)
    return z >> 32, z & 0xFFFFFFFF


def keys(decisions: Sequence[tuple[int, int]], purpose: int = Purpose.DRAW) -> mx.array:
    """Keys of (seed, position) pairs, one upload: uint32 [N, 2], high half first."""
    return mx.array([key(seed, position, purpose) for seed, position in decisions], dtype=mx.uint32)


def uniform(keys: mx.array, ids: mx.array) -> mx.array:
    """Uniforms in (0, 1), float32 [N, n], never 0 nor 1. `keys` uint32 [N, 2], `ids` any integer [N, n] or [1, n]."""
    return _uniform(keys[:, 0:1], keys[:, 1:2], ids)


def gumbel(keys: mx.array, ids: mx.array) -> mx.array:
    """Gumbel(0, 1) noise of tokens `ids`, float32 [N, n], within [-2.82, 16.64]. Shapes as in `uniform`."""
    return _gumbel(keys[:, 0:1], keys[:, 1:2], ids)


def _mix(z: int) -> int:
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


# Shapeless: one trace serves every number of rows and candidates. Slices cannot be in it.
@partial(mx.compile, shapeless=True)
def _uniform(high: mx.array, low: mx.array, ids: mx.array) -> mx.array:
    return _unit(_hash(high, low, ids))


@partial(mx.compile, shapeless=True)
def _gumbel(high: mx.array, low: mx.array, ids: mx.array) -> mx.array:
    return -mx.log(-mx.log(_unit(_hash(high, low, ids))))


def _hash(high: mx.array, low: mx.array, ids: mx.array) -> mx.array:
    return _finish(_finish(ids.astype(mx.uint32) * mx.array(0x9E3779B1, mx.uint32) + low) ^ high)


def _finish(z: mx.array) -> mx.array:
    z = (z ^ (z >> 16)) * mx.array(0x85EBCA6B, mx.uint32)
    z = (z ^ (z >> 13)) * mx.array(0xC2B2AE35, mx.uint32)
    return z ^ (z >> 16)


def _unit(h: mx.array) -> mx.array:
    # 23 bits and half a step are exact in float32; with 24 bits u could round to 1 and the noise to infinity.
    return ((h >> 9).astype(mx.float32) + 0.5) * (1.0 / 2**23)
