"""The filters of llama.cpp's sampler chain, each from `Candidates` to `Candidates` (semantics: llama-sampler.cpp).

`p` always means the softmax over what the filters before have left. Where several tokens are equally likely, upstream
leaves their order to its sort; here it is the order of `candidates.rank`, the same for the same row.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from stoker.models import noise
from stoker.models.candidates import (
    Candidates,
    Column,
    keep_first,
    keep_where,
    positions,
    probabilities,
    rank,
    reorder,
    top,
)


def top_k(c: Candidates, k: int) -> Candidates:
    """The k best; they come out ranked. This is where the vocabulary becomes small."""
    k = min(k, c.logits.shape[-1])
    size = mx.minimum(c.size, k)
    if c.ranked:
        ids = None if c.ids is None else c.ids[:, :k]
        return replace(c, logits=c.logits[:, :k], ids=ids, size=size)
    best = top(c.logits, k)
    ids = best.columns if c.ids is None else mx.take_along_axis(c.ids, best.columns, axis=-1)
    return replace(c, logits=best.values, ids=ids, size=size, ranked=True)


def top_p(c: Candidates, p: float, min_keep: int) -> Candidates:
    """The fewest best tokens whose probabilities reach p, but at least `min_keep`."""
    c = rank(c)
    short = mx.cumsum(probabilities(c), axis=-1) < p
    return keep_first(c, _count(c, _number(short) + 1, min_keep))


def min_p(c: Candidates, p: float, min_keep: int) -> Candidates:
    """Tokens at least p times as likely as the best one, but at least the `min_keep` best."""
    near = c.logits >= mx.max(c.logits, axis=-1, keepdims=True) + math.log(p)
    if min_keep <= 1:
        return replace(keep_where(c, near), size=mx.minimum(_number(near), c.size))
    return keep_first(rank(c), _count(c, _number(near), min_keep))


def typical(c: Candidates, p: float, min_keep: int) -> Candidates:
    """The tokens whose surprise is nearest to the entropy, until their probabilities exceed p; at least `min_keep`."""
    prob = probabilities(c)
    surprise = -mx.log(prob)
    odd = mx.where(prob > 0, mx.abs(surprise - _entropy(prob)), mx.inf)
    order = mx.argsort(odd, axis=-1)
    short = mx.cumsum(mx.take_along_axis(prob, order, axis=-1), axis=-1) <= p
    return keep_first(reorder(c, order), _count(c, _number(short) + 1, min_keep))


def top_n_sigma(c: Candidates, n: float) -> Candidates:
    """Tokens whose logit is within n standard deviations of the best one's. What is cut still counts in `size`."""
    alive = c.logits > -mx.inf
    number = mx.maximum(_number(alive), 1)
    mean = mx.where(alive, c.logits, 0.0).sum(axis=-1, keepdims=True) / number
    variance = mx.where(alive, mx.square(c.logits - mean), 0.0).sum(axis=-1, keepdims=True) / number
    return keep_where(c, c.logits >= mx.max(c.logits, axis=-1, keepdims=True) - n * mx.sqrt(variance))


def xtc(c: Candidates, probability: float, threshold: float, min_keep: int, columns: Sequence[Column]) -> Candidates:
    """With `probability`, all tokens at or above `threshold` go, but the least likely of them.

    The coin is keyed by (seed, position), so that a column has the same one in any company and width.
    """
    c = rank(c)
    prob = probabilities(c)
    drop = mx.maximum(_number((prob >= threshold) & (prob > 0)) - 1, 0)
    coins = noise.keys([(column.seed, column.position) for column in columns], noise.Purpose.COIN)
    acts = noise.uniform(coins, mx.zeros((1, 1), dtype=mx.uint32)) <= probability
    drop = mx.where(acts & (c.size - drop >= min_keep), drop, 0)
    return replace(keep_where(c, positions(c) >= drop), size=c.size - drop, ranked=False)


_COLDEST, _HOTTEST = 1e-10, 1e10
"""Temperatures beyond these overflow float32 and draw nothing else: the best token, or any."""


def temperature(c: Candidates, t: float) -> Candidates:
    """Logits divided by t; t <= 0 leaves the best token alone."""
    if t <= 0:
        return keep_where(c, positions(c) == mx.argmax(c.logits, axis=-1, keepdims=True))
    return c if t == 1.0 else replace(c, logits=c.logits / min(max(t, _COLDEST), _HOTTEST))


def dynamic_temperature(c: Candidates, t: float, spread: float, exponent: float) -> Candidates:
    """A temperature between t - spread and t + spread, by the entropy relative to the largest possible one."""
    low, high = max(t - spread, 0.0), t + spread
    largest = mx.log(c.size.astype(mx.float32))
    relative = _entropy(probabilities(c)) / mx.where(largest > 0, largest, 1.0)
    warmth = mx.clip(low + (high - low) * mx.power(mx.maximum(relative, 0.0), exponent), _COLDEST, _HOTTEST)
    return replace(c, logits=c.logits / warmth)


def _number(mask: mx.array) -> mx.array:
    return mask.sum(axis=-1, keepdims=True).astype(mx.int32)


def _count(c: Candidates, count: mx.array, min_keep: int) -> mx.array:
    """How many to keep: `count`, at least `min_keep` and at most what there is."""
    return mx.minimum(mx.maximum(count, max(min_keep, 1)), c.size)


def _entropy(prob: mx.array) -> mx.array:
    """In nats, [N, 1]; a token of probability zero adds nothing."""
    return -mx.where(prob > 0, prob * mx.log(mx.maximum(prob, 1e-45)), 0.0).sum(axis=-1, keepdims=True)
