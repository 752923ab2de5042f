"""DSpark on the one loop: one forward for the block, then a chain of small corrections, each behind a drawn token.

The chain is built lazily, so a round still has one synchronisation. Its q is chained too: each slot's
distribution is the one *after* the correction by the token that was really drawn before it. Without
that q the stream would be biased, and accept more.
"""

from pathlib import Path

import mlx.core as mx

from stoker.core.counters import Kind
from stoker.models.nets import dspark
from stoker.models.nets.dspark import DSparkNet
from stoker.models.nets.lender import lend
from stoker.models.target import Target
from stoker.rounds.block import BlockDrafter, Drafted, Turns


class DSpark(BlockDrafter):
    kind = Kind.DSPARK

    def __init__(self, net: DSparkNet, target: Target, *, most: int | None = None, least_p: float = 0.0) -> None:
        super().__init__(net, target, most=most, least_p=least_p)
        self._chain_net = net

    def draw(self, hidden: mx.array, turns: Turns) -> Drafted:
        base = self._net.logits(hidden)
        previous = [mx.array([ask.anchor for ask in turns.asks], mx.int32)]
        logits: list[mx.array] = []
        for depth in range(turns.most):
            logits.append(self._net.spread(self._chain_net.corrected(base[:, depth], previous[-1])))
            drawn = self._sampler.choose(
                logits[-1][:, None], turns.draws, turns.starts(depth), purpose=turns.purpose
            ).tokens
            previous.append(drawn[:, 0])
        chained = mx.stack(logits, axis=1)
        return Drafted(mx.stack(previous[1:], axis=1), chained, self._sure(hidden, chained, previous[:-1]))

    def _sure(self, hidden: mx.array, logits: mx.array, previous: list[mx.array]) -> mx.array | None:
        if not self._least_p:
            return None
        if self._chain_net.has_confidence:
            return self._chain_net.confidence(hidden, mx.stack(previous, axis=1))
        return mx.softmax(logits.astype(mx.float32), axis=-1).max(axis=-1)


def load(path: Path, target: Target, *, most: int | None = None, least_p: float = 0.0) -> DSpark:
    """Raises StartError, one line, for a checkpoint that is incomplete or made for another target."""
    return DSpark(dspark.load(path, lend(target)), target, most=most, least_p=least_p)
