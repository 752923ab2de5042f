"""Repetition, presence and frequency penalties over the last tokens of prompt and answer (llama-sampler.cpp)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import mlx.core as mx

from stoker.core.request import Sampling
from stoker.models.candidates import Candidates, Column

LARGEST = 3.0e38
"""Nearly the largest float32: what would be infinite is this, so that no difference of logits is undefined."""


def penalise(c: Candidates, s: Sampling, columns: Sequence[Column]) -> Candidates:
    """Logits lowered for the tokens among each column's last `repeat_last_n`."""

    def lowered(logits: mx.array, count: mx.array) -> mx.array:
        # A negative logit is multiplied: dividing it would make the token more likely.
        scaled = mx.where(logits <= 0, logits * s.repeat_penalty, logits / s.repeat_penalty)
        less = mx.clip(scaled - count * s.frequency_penalty - s.presence_penalty, -LARGEST, LARGEST)
        return mx.where((count > 0) & (logits > -mx.inf), less, logits)

    return edit(c, [Counter(last(column.history, s.repeat_last_n)) for column in columns], lowered)


def last(history: Sequence[int], n: int) -> Sequence[int]:
    """The last n tokens; all of them for a negative n, none for 0."""
    return history if n < 0 else history[max(len(history) - n, 0) :]


def edit(
    c: Candidates, values: Sequence[Mapping[int, float]], change: Callable[[mx.array, mx.array], mx.array]
) -> Candidates:
    """`change(logits, values)` for the few tokens that have a value in their column, the others left alone.

    `change` must leave a logit alone where the value is 0.
    """
    known = [_inside(column.items(), c.vocab) for column in values]
    width = max((len(column) for column in known), default=0)
    if not width:
        return c
    # A short row repeats its first entry: writing the same value twice is harmless.
    padded = [column + (column or [(0, 0.0)])[:1] * (width - len(column)) for column in known]
    ids = mx.array([[token for token, _ in column] for column in padded], dtype=mx.int32)
    worth = mx.array([[value for _, value in column] for column in padded], dtype=mx.float32)
    if c.ids is None:
        few = change(mx.take_along_axis(c.logits, ids, axis=-1), worth)
        return replace(c, logits=mx.put_along_axis(c.logits, ids, few, axis=-1), ranked=False)
    table = mx.put_along_axis(mx.zeros((len(padded), c.vocab)), ids, worth, axis=-1)
    return replace(c, logits=change(c.logits, mx.take_along_axis(table, c.ids, axis=-1)), ranked=False)


def _inside(items: Iterable[tuple[int, float]], vocab: int) -> list[tuple[int, float]]:
    return [(token, value) for token, value in items if 0 <= token < vocab]
