"""The tokens that may still be drawn, for N columns at once, and the few operations every filter is made of.

A removed token has logit -inf and stays in its place: nothing here may look at a value, so no shape can depend on
one. `size` says how many tokens llama.cpp's list would hold, which differs from the number of finite logits: a token
banned by a bias or cut by top-n-sigma still counts there (for `min_keep` and for dynamic temperature).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import mlx.core as mx

_STRIPES = 64
"""A row is cut into groups of this many columns for `top`; 32 and 128 take as long (CPU, V = 49,152)."""


class Column(NamedTuple):
    """One draw: the request's seed, the absolute position drawn for, the last tokens before it where any need them."""

    seed: int
    position: int
    history: Sequence[int] = ()
    constrained: bool = False
    """True: a grammar has taken tokens away, and it wins over a bias that would ban the rest."""


class Top(NamedTuple):
    """The largest entries of each row, best first: `values` [N, k] and their `columns` [N, k] int32."""

    values: mx.array
    columns: mx.array


@dataclass(frozen=True, slots=True)
class Candidates:
    """`logits` float32 [N, n]; `ids` int32 [N, n], None = column number; `size` int32, broadcastable to [N, 1]."""

    logits: mx.array
    vocab: int
    size: mx.array
    ids: mx.array | None = None
    ranked: bool = False
    """True: best first, removed tokens last."""


def everything(logits: mx.array) -> Candidates:
    """All tokens of float32 logits [N, V]."""
    return Candidates(logits, logits.shape[-1], mx.array(logits.shape[-1]))


def rank(c: Candidates) -> Candidates:
    """The same tokens, best first."""
    return c if c.ranked else replace(reorder(c, mx.argsort(-c.logits, axis=-1)), ranked=True)


def reorder(c: Candidates, order: mx.array) -> Candidates:
    """The tokens at the columns `order` [N, m], in that order."""
    order = order.astype(mx.int32)
    ids = order if c.ids is None else mx.take_along_axis(c.ids, order, axis=-1)
    return replace(c, logits=mx.take_along_axis(c.logits, order, axis=-1), ids=ids, ranked=False)


def keep_first(c: Candidates, count: mx.array) -> Candidates:
    """Only the first `count` [N, 1] tokens of the present order."""
    return keep_where(replace(c, size=count), positions(c) < count)


def keep_where(c: Candidates, mask: mx.array) -> Candidates:
    """Only the tokens where `mask` is true; the caller sets `size`."""
    return replace(c, logits=mx.where(mask, c.logits, -mx.inf))


def positions(c: Candidates) -> mx.array:
    """Column numbers, int32 [1, n]."""
    return mx.arange(c.logits.shape[-1], dtype=mx.int32)[None]


def probabilities(c: Candidates) -> mx.array:
    """Softmax over what is left, float32 [N, n]; removed tokens have exactly zero."""
    return mx.softmax(c.logits, axis=-1)


def spread(c: Candidates) -> mx.array:
    """`probabilities` by token id, float32 [N, V]."""
    p = probabilities(c)
    if c.ids is None:
        return p
    return mx.put_along_axis(mx.zeros((p.shape[0], c.vocab)), c.ids, p, axis=-1)


def token_at(c: Candidates, index: mx.array) -> mx.array:
    """Token ids int32 [N, 1] of the columns `index` [N, 1]."""
    return (index if c.ids is None else mx.take_along_axis(c.ids, index, axis=-1)).astype(mx.int32)


def top(x: mx.array, k: int) -> Top:
    """The k largest of each row of x [N, n], 1 <= k <= n.

    A selection over the maxima of groups comes first: each of the k largest entries lies in one of the k groups with
    the largest maxima, so only those need to be looked into. Eleven times faster than a selection over the whole row
    (V = 49,152, CPU). Among equal values at the edge the choice is arbitrary, but the same for the same row.
    """
    groups = x.shape[-1] // _STRIPES
    if groups >= 2 * k:
        columns = _of_best_groups(x, groups, k)
        x = mx.take_along_axis(x, columns, axis=-1)
    else:
        columns = None
    best = mx.argpartition(x, x.shape[-1] - k, axis=-1)[:, x.shape[-1] - k :]
    order = mx.argsort(-mx.take_along_axis(x, best, axis=-1), axis=-1)
    best = mx.take_along_axis(best, order, axis=-1)
    values = mx.take_along_axis(x, best, axis=-1)
    return Top(values, (best if columns is None else mx.take_along_axis(columns, best, axis=-1)).astype(mx.int32))


def _of_best_groups(x: mx.array, groups: int, k: int) -> mx.array:
    """Columns [N, m] that are sure to hold the k largest entries. Group j is the columns j, j + groups, …."""
    rows, width = x.shape
    whole = groups * _STRIPES
    peaks = x[:, :whole].reshape(rows, _STRIPES, groups).max(axis=1)
    best = mx.argpartition(peaks, groups - k, axis=-1)[:, groups - k :].astype(mx.int32)
    steps = mx.arange(0, whole, groups, dtype=mx.int32)
    columns = (best[:, None, :] + steps[None, :, None]).reshape(rows, -1)
    rest = mx.broadcast_to(mx.arange(whole, width, dtype=mx.int32)[None], (rows, width - whole))
    return mx.concatenate([columns, rest], axis=-1)
