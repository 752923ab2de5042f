"""What modified rejection sampling needs from the device: probabilities, uniforms, residual draws.

Source: Leviathan et al. 2023, algorithm 1; spec/drafters.md section 5.3. The three kinds of noise
(proposal, test, residual) are independent of one another and of the target's own draw.
"""

from typing import NamedTuple

import mlx.core as mx

from stoker.models import noise
from stoker.models.noise import Purpose


class Terms(NamedTuple):
    """Of n proposals, not evaluated: `p`, `q`, `u` float32 [n], `choices` int32 [n + 1]."""

    p: mx.array
    q: mx.array
    u: mx.array
    choices: mx.array


def terms(p: mx.array, q: mx.array | None, draft: mx.array, seed: int, start: int) -> Terms:
    """Terms of one row's round.

    `p` float32 [n + 1, V] is the target's distribution of each column (it predicts position
    `start` + column); `q` float32 [n, V] what the proposals `draft` int32 [n] were drawn from, None
    where they are certain (one-hot). The choice of column i < n is a draw from
    normalize(relu(p - q)), or from p where that is zero everywhere; the last one a draw from p.
    """
    n, vocab = p.shape[0] - 1, p.shape[1]
    at = draft[:, None]
    certain = (mx.arange(vocab)[None] == at).astype(mx.float32)
    q = certain if q is None else q
    excess = mx.maximum(p[:n] - q, 0)
    residual = mx.where(excess.sum(axis=-1, keepdims=True) > 0, excess, p[:n])
    places = [(seed, start + i) for i in range(n)]
    own = noise.gumbel(noise.keys(places, Purpose.RESIDUAL), mx.arange(vocab)[None])
    bonus = noise.gumbel(noise.keys([(seed, start + n)], Purpose.DRAW), mx.arange(vocab)[None])
    scores = mx.log(mx.concatenate([residual, p[n:]])) + mx.concatenate([own, bonus])
    u = noise.uniform(noise.keys(places, Purpose.ACCEPT), mx.zeros((1, 1), mx.int32))[:, 0]
    return Terms(
        p=mx.take_along_axis(p[:n], at, axis=-1)[:, 0],
        q=mx.take_along_axis(q, at, axis=-1)[:, 0],
        u=u,
        choices=mx.argmax(scores, axis=-1).astype(mx.int32),
    )
