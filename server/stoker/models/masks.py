"""Masks: which tokens a row's grammar allows in each column, and how that reaches the logits."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

BITS = 32


class Constraint(Protocol):
    """Where an answer stands in its grammar; `text.constraint.Constraint` is one. Host work only."""

    def masks(self, draft: Sequence[int]) -> NDArray[np.uint32]:
        """Bits [len(draft) + 1, words]: the tokens that may come next, and behind each of `draft`."""
        ...

    def allowed(self, draft: Sequence[int]) -> int:
        """How many of the tokens may come, one after the other."""
        ...

    def advance(self, tokens: Sequence[int]) -> None:
        """The answer goes on by these tokens."""
        ...


def masked(logits: mx.array, rows: Mapping[int, NDArray[np.uint32]]) -> mx.array:
    """Logits [B, w, V] with -inf where a row's bits [n, words], n <= w, forbid a token.

    Rows that are not named and columns beyond n stay as they are, bit for bit.
    """
    if not rows:
        return logits
    count, width, vocab = logits.shape
    words = -(-vocab // BITS)
    bits = np.full((count, width, words), 0xFFFFFFFF, np.uint32)
    for row, mask in rows.items():
        bits[row, : len(mask)] = 0
        bits[row, : len(mask), : mask.shape[-1]] = mask[:, :words]
    shifts = mx.arange(BITS, dtype=mx.uint32)
    allowed = (mx.array(bits)[..., None] >> shifts) & 1
    return mx.where(allowed.reshape(count, width, -1)[..., :vocab] == 1, logits, -mx.inf)
