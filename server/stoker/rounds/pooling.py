"""Pool: from the vectors of a prompt's tokens to its embedding, while the prompt is read piece by piece."""

from typing import cast

import mlx.core as mx

from stoker.core.request import Pooling
from stoker.core.work import Vector
from stoker.models.features import final_norm
from stoker.models.target import Target


class Pool:
    """For one row. The vectors are llama-server's: the last layer's output behind the final norm."""

    def __init__(self, pooling: Pooling, target: Target) -> None:
        """StartError where the model's final norm is not found."""
        self._pooling = pooling
        self._norm = final_norm(target.model)
        self._sum: mx.array | None = None
        self._kept: list[mx.array] = []
        self._count = 0

    def read(self, stream: mx.array) -> None:
        """The next tokens' residual streams behind the last layer, [n, H]. Waits for the device."""
        vectors = self._norm(stream).astype(mx.float32)
        self._count += vectors.shape[0]
        match self._pooling:
            case Pooling.NONE:
                self._kept.append(vectors)
            case Pooling.CLS:
                self._kept = self._kept or [vectors[:1]]
            case Pooling.LAST:
                self._kept = [vectors[-1:]]
            case Pooling.MEAN:
                piece = vectors.sum(axis=0, keepdims=True)
                self._sum = piece if self._sum is None else self._sum + piece
        mx.eval(self._sum, self._kept)

    def vectors(self) -> tuple[Vector, ...]:
        """One vector, without pooling one a token; not normalised."""
        made = [self._sum / self._count] if self._sum is not None else self._kept
        return tuple(tuple(row) for part in made for row in cast("list[list[float]]", part.tolist()))
