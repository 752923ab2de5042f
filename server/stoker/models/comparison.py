"""Two forwards that ought to give the same logits: how far apart they are, and what that is worth."""

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import mlx.core as mx

ROUNDING = 1 / 16
"""The share of a column's largest logit up to which a difference can be rounding: more is an error somewhere.

Eight steps of bfloat16 next to that logit. It is what makes a wrong column show however large the
"noise" is that it makes: without such a bound, noise excuses itself.
"""
LARGEST = 3.4028234663852886e38
"""The largest float32: stands for what is no number."""
LEAST = 1e-30
"""Keeps a column of zeros from being divided by."""


class Grade(StrEnum):
    """How well two forwards agree, best first."""

    BITWISE = "bitwise"
    DECIDED = "decided"
    """Rounding differs, but no choice does where the choice was clear."""
    NEITHER = "neither"

    @property
    def rank(self) -> int:
        """0 is the best."""
        return list(Grade).index(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of any number of columns. They only grow as columns are added, so that a sum is pooled evidence."""

    bytes: int = 0
    differing: int = 0
    """How many of the bytes differ."""
    largest: float = 0.0
    """The largest difference of a logit: the measured noise."""
    share: float = 0.0
    """The largest difference as a share of the largest logit of its column."""
    margin: float = 0.0
    """Where the best token changed: by how much the old one had led the new one, at most."""

    def __add__(self, other: "Comparison") -> "Comparison":
        return Comparison(
            self.bytes + other.bytes,
            self.differing + other.differing,
            max(self.largest, other.largest),
            max(self.share, other.share),
            max(self.margin, other.margin),
        )

    @property
    def grade(self) -> Grade:
        if not self.differing:
            return Grade.BITWISE
        return Grade.DECIDED if self.share <= ROUNDING and self.margin <= self.largest else Grade.NEITHER


def compare(reference: mx.array, other: mx.array) -> Comparison:
    """Logits [..., V] of one shape and type. Waits for the device. ValueError where they cannot be compared."""
    if reference.shape != other.shape or reference.dtype != other.dtype:
        raise ValueError(f"{reference.shape} {reference.dtype} against {other.shape} {other.dtype}")
    size = reference.nbytes
    differing = int(_worst(mx.sum(_bytes(reference) != _bytes(other))))
    if not differing:
        return Comparison(bytes=size)
    a, b = reference.astype(mx.float32), other.astype(mx.float32)
    difference = _number(mx.where(a == b, 0, mx.abs(a - b)))
    reach = mx.max(mx.where(mx.isfinite(a), mx.abs(a), 0), axis=-1, keepdims=True)
    share = _number(difference / mx.maximum(reach, LEAST))
    lead = _number(_at(a, a) - _at(a, b))
    return Comparison(size, differing, _worst(difference), _worst(share), _worst(lead))


def _bytes(logits: mx.array) -> mx.array:
    return mx.contiguous(logits).view(mx.uint8)


def _at(logits: mx.array, chooser: mx.array) -> mx.array:
    """[..., 1]: the logit of the token that `chooser` finds best."""
    return mx.take_along_axis(logits, mx.argmax(chooser, axis=-1, keepdims=True), axis=-1)


def _worst(figures: mx.array) -> float:
    return float(cast("float", mx.max(figures).item()))


def _number(figures: mx.array) -> mx.array:
    return mx.nan_to_num(figures, nan=LARGEST, posinf=LARGEST, neginf=-LARGEST)
