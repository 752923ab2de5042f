"""A draft that grows a token at a time, for all its rows at once: draws, and the distributions they came from."""

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from stoker.models.noise import Purpose
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.rounds.base import Ask, Proposal


class Chain:
    """The drafts of some rows. Nothing is evaluated here, but for a `least_p`."""

    def __init__(self, sampler: Sampler, asks: Sequence[Ask], draws: Sequence[Draws], counts: Sequence[int]) -> None:
        """`counts`: proposals wanted of each row; the others' are drawn along and left out."""
        self._sampler, self._asks, self._draws, self.counts = sampler, asks, draws, counts
        self._purpose = Purpose.DRAW if all(ask.drawing.coupled for ask in asks) else Purpose.PROPOSAL
        self._tokens: list[mx.array] = []
        self._logits: list[mx.array] = []

    @property
    def last(self) -> mx.array:
        """int32 [B, 1]: the proposals drawn last."""
        return self._tokens[-1]

    def draw(self, logits: mx.array) -> mx.array:
        """One more proposal for every row, from logits [B, 1, V]: int32 [B, 1]."""
        starts = [ask.position + 1 + len(self._tokens) for ask in self._asks]
        self._tokens.append(self._sampler.choose(logits, self._draws, starts, purpose=self._purpose).tokens)
        self._logits.append(logits[:, 0])
        return self.last

    def proposals(self, least_p: float = 0.0) -> list[Proposal]:
        """Each row's part, which ends before a token that the drafter gives less than `least_p`."""
        drafted = mx.concatenate(self._tokens, axis=1)
        counts = self._confident(drafted, least_p) if least_p > 0 else self.counts
        return [
            Proposal(
                drafted[n, :count], self._distribution(n, count, least_p) if ask.drawing.with_q and count else None
            )
            for n, (ask, count) in enumerate(zip(self._asks, counts, strict=True))
        ]

    def _distribution(self, n: int, count: int, least_p: float) -> mx.array:
        """What row n's proposals were drawn from, [count, V].

        A token below `least_p` would have ended the chain: those that did not were drawn from the others, and
        modified rejection must be told so, or the unlikely tokens of the target would come too seldom.
        """
        logits = mx.stack([step[n] for step in self._logits[:count]])
        q = self._sampler.distribution(logits, self._draws[n], self._asks[n].position + 1)
        if least_p <= 0:
            return q
        q = mx.where(mx.softmax(logits.astype(mx.float32), axis=-1) >= least_p, q, 0.0)
        return q / q.sum(axis=-1, keepdims=True)

    def _confident(self, drafted: mx.array, least_p: float) -> list[int]:
        """Proposals of each row before the first unlikely one. Must be read: the one extra synchronisation."""
        p = mx.softmax(mx.stack(self._logits, axis=1).astype(mx.float32), axis=-1)
        return sure_of(mx.take_along_axis(p, drafted[..., None], axis=-1)[..., 0], least_p, self.counts)


def sure_of(p: mx.array, least_p: float, counts: Sequence[int]) -> list[int]:
    """Of each row's `counts`, those before the first whose `p` [B, n] is less than `least_p`. A synchronisation."""
    leading = mx.cumprod((p >= least_p).astype(mx.int32), axis=1).sum(axis=1)
    likely = cast("list[int]", leading.tolist())
    return [min(count, n) for count, n in zip(counts, likely, strict=True)]
