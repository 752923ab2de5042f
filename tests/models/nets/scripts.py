"""What is played to a drafter, here and when its reference was recorded: cases, prompts, made-up streams."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from models import tiny
from models.nets import published
from models.nets.published import Numbers

PROMPT = (3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26)
"""The last one is the anchor of the first round."""
BLOCK = 4
"""Columns of a round: the anchor and three proposals."""
ROUNDS = (1, 0, 3, 2, 0, 0, 3, 1)
"""Proposals that are accepted in each round."""


@dataclass(frozen=True, slots=True)
class Case:
    write: Callable[[Path], Path]
    dtype: mx.Dtype = mx.float32
    """Of the checkpoint and of the target."""


QWEN_CASES = {
    "native": Case(published.qwen_native),
    "native bfloat16": Case(lambda place: published.qwen_native(place, dtype=mx.bfloat16), mx.bfloat16),
    "native experts": Case(lambda place: published.qwen_native(place, moe=True)),
    "native single experts": Case(lambda place: published.qwen_native(place, moe=True, fused=False)),
    "sidecar": Case(published.qwen_sidecar),
    "sidecar 4-bit": Case(lambda place: published.qwen_sidecar(place, bits=4)),
}

GEMMA_CASES = {
    "full": Case(published.gemma_assistant),
    "ordered": Case(lambda place: published.gemma_assistant(place, ordered=True)),
    "unified": Case(lambda place: published.gemma_assistant(place, unified=True)),
    "full bfloat16": Case(lambda place: published.gemma_assistant(place, dtype=mx.bfloat16), mx.bfloat16),
    "ordered bfloat16": Case(
        lambda place: published.gemma_assistant(place, ordered=True, dtype=mx.bfloat16), mx.bfloat16
    ),
    "full 4-bit": Case(lambda place: published.gemma_assistant(place, bits=4)),
}


def gemma_lengths(name: str) -> tuple[int, ...]:
    """Columns that the target holds: inside of the window, exactly at it, and past it."""
    return (5, tiny.WINDOW, tiny.WINDOW + 1, 3 * tiny.WINDOW) if name in ("full", "ordered") else (9, 40)


def residuals(number: int, columns: int) -> mx.array:
    """A made-up residual stream behind the target's last layer, float32 [columns, H]."""
    return Numbers(100 + number).matrix(columns, published.WIDTH, size=1.0)


def verified(number: int) -> mx.array:
    """That of the columns of round `number`, [BLOCK, H]."""
    return residuals(20 + number, BLOCK)


def final(number: int) -> int:
    """The target's own token at the end of round `number`."""
    return 17 + number


def gemma_columns(kind: str, length: int) -> tuple[mx.array, mx.array]:
    """Made-up keys and values of a target's layer, [heads, length, dim]."""
    dim = 32 if kind == "full_attention" else 16
    numbers = Numbers(50 + dim)
    return numbers.matrix(2, length, dim, size=1.0), numbers.matrix(2, length, dim, size=1.0)


GLIMMER_CASES = {
    "float32": Case(published.glimmer_assistant),
    "bfloat16": Case(lambda place: published.glimmer_assistant(place, dtype=mx.bfloat16), mx.bfloat16),
    "4-bit": Case(lambda place: published.glimmer_assistant(place, bits=4)),
}
GLIMMER_STEPS = (10, 1, 4, 2, 1, 3, 8, 1, 1, 4)
"""New columns before each block: accept counts 0 to 3 among them, inside of the window and past it."""


def glimmer_features(number: int, columns: int) -> mx.array:
    """Made-up residual streams of the taps side by side, [columns, T · H]."""
    return Numbers(300 + number).matrix(columns, len(published.GLIMMER_TAPS) * published.WIDTH, size=1.0)
