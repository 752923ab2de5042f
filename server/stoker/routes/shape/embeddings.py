"""Vectors as the embedding routes show them."""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.core.events import Embedded
from stoker.routes.body import Json
from stoker.routes.schema.embedding import EmbeddingJob

LARGEST = 32760
"""What the largest component becomes under norm 0: nearly the largest int16."""


def normalized(vector: Sequence[float], norm: int) -> NDArray[np.float32]:
    """By llama.cpp's numbers: -1 leaves it alone, 0 scales by the largest component, p by the p-norm."""
    exact = np.asarray(vector, np.float64)
    sizes = np.abs(exact)
    if norm < 0:
        length = 1.0
    elif norm == 0:
        length = float(sizes.max(initial=0.0)) / LARGEST
    else:
        with np.errstate(over="ignore"):  # beyond a double the length is infinite, as in C
            length = float(np.sum(sizes**norm) ** (1.0 / norm))
    return (exact / length if length > 0 else exact * 0.0).astype(np.float32)


def native(ends: Sequence[Embedded], job: EmbeddingJob, *, pooled: bool) -> list[Json]:
    """Without pooling the vectors of the tokens, as they are."""
    norm = job.normalize if pooled else -1
    return [
        {"index": index, "embedding": [normalized(vector, norm).tolist() for vector in end.vectors]}
        for index, end in enumerate(ends)
    ]


def openai(ends: Sequence[Embedded], job: EmbeddingJob) -> Json:
    count = sum(end.prompt_tokens for end in ends)
    return {
        "model": job.model,
        "object": "list",
        "usage": {"prompt_tokens": count, "total_tokens": count},
        "data": [_one(index, normalized(end.vectors[0], job.normalize), job) for index, end in enumerate(ends)],
    }


def _one(index: int, vector: NDArray[np.float32], job: EmbeddingJob) -> Json:
    if not job.base64:
        return {"embedding": vector.tolist(), "index": index, "object": "embedding"}
    text = base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return {"embedding": text, "index": index, "object": "embedding", "encoding_format": "base64"}
