"""DFlash on the one loop: every slot of the block proposes by itself, so all are drawn at once; q is per slot."""

from pathlib import Path

import mlx.core as mx

from stoker.core.counters import Kind
from stoker.models.nets import dflash
from stoker.models.nets.lender import lend
from stoker.models.target import Target
from stoker.rounds.block import BlockDrafter, Drafted, Turns


class DFlash(BlockDrafter):
    kind = Kind.DFLASH

    def draw(self, hidden: mx.array, turns: Turns) -> Drafted:
        logits = self._net.spread(self._net.logits(hidden))
        tokens = self._sampler.choose(logits, turns.draws, turns.starts(), purpose=turns.purpose).tokens
        sure = mx.softmax(logits.astype(mx.float32), axis=-1).max(axis=-1) if self._least_p else None
        return Drafted(tokens, logits, sure)


def load(path: Path, target: Target, *, most: int | None = None, least_p: float = 0.0) -> DFlash:
    """Raises StartError, one line, for a checkpoint that is incomplete or made for another target."""
    return DFlash(dflash.load(path, lend(target)), target, most=most, least_p=least_p)
