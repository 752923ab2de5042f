"""What a client may learn of a token's probability: before the chain (natural logarithms) or after it."""

from typing import NamedTuple

import mlx.core as mx

from stoker.models.candidates import top


class Report(NamedTuple):
    """`chosen` [B, w], `ids` int32 [B, w, n] and their `values` [B, w, n], best first; not evaluated."""

    chosen: mx.array
    ids: mx.array
    values: mx.array


def report(logits: mx.array, tokens: mx.array, n: int) -> Report:
    """Log probabilities of raw logits [B, w, V] (no chain, whole vocabulary): llama-server's default form.

    `tokens` [B, w] are the chosen ids, `n` how many alternatives to list.
    """
    logits = logits.astype(mx.float32)
    total = mx.logsumexp(logits, axis=-1, keepdims=True)
    found = _best(logits, tokens, n)
    return Report(found.chosen - total[..., 0], found.ids, found.values - total)


def report_drawn(p: mx.array, tokens: mx.array, n: int) -> Report:
    """Probabilities of the distribution drawn from, p [B, w, V] (`post_sampling_probs`).

    Entries of zero fill the list where p has fewer tokens than n; the caller leaves them out.
    """
    return _best(p, tokens, n)


def _best(x: mx.array, tokens: mx.array, n: int) -> Report:
    chosen = mx.take_along_axis(x, tokens[..., None].astype(mx.int32), axis=-1)[..., 0]
    shape = (*x.shape[:2], min(n, x.shape[-1]))
    if not shape[-1]:
        return Report(chosen, mx.zeros(shape, dtype=mx.int32), mx.zeros(shape))
    best = top(x.reshape(-1, x.shape[-1]), shape[-1])
    return Report(chosen, best.columns.reshape(shape), best.values.reshape(shape))
