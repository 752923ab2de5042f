"""Does a block drafter fit its target? Refused before the first request, with both sides in one line."""

from typing import cast

import mlx.core as mx

from stoker.core.errors import StartError
from stoker.models.nets.block_config import BlockConfig
from stoker.models.nets.checkpoint import Checkpoint
from stoker.models.nets.lender import Lender


def require_fit(config: BlockConfig, checkpoint: Checkpoint, lender: Lender) -> None:
    """Raises StartError."""
    say = _Pair(checkpoint.path, lender.name)
    if config.vocab is not None and config.vocab != lender.vocab:
        raise say.differ("tokens", config.vocab, lender.vocab)
    if config.target_layers is not None and config.target_layers != lender.depth:
        raise say.differ("decoder layers", config.target_layers, lender.depth)
    if beyond := [tap for tap in config.taps if tap >= lender.depth]:
        raise StartError(
            f"the drafter {say.drafter} reads the target's layer {beyond[0]}, "
            f"and the target {say.target} has {lender.depth} (numbered from 0)"
        )
    if config.hidden != lender.width:
        raise say.differ("hidden units", config.hidden, lender.width)
    if not 0 <= config.mask < lender.vocab:
        raise StartError(f"the drafter {say.drafter} has mask token {config.mask} of {lender.vocab} tokens")
    if config.draft_vocab is not None and not _leads(config.draft_vocab, checkpoint, lender):
        raise StartError(
            f"the drafter {say.drafter} can propose {config.draft_vocab} tokens, "
            f"and its d2t does not lead them to as many of the target {say.target}'s {lender.vocab}"
        )


def proposable(d2t: mx.array) -> mx.array:
    """The tokens that a short head can propose, int32 [D]: `d2t` says how far each is from its own number."""
    return (mx.arange(d2t.shape[0]) + d2t).astype(mx.int32)


def _leads(count: int, checkpoint: Checkpoint, lender: Lender) -> bool:
    """True if `d2t` gives each token that can be proposed one of the target's, no two the same."""
    offsets = checkpoint.tensors.get("d2t")
    if offsets is None or offsets.shape != (count,):
        return False
    ids = set(cast("list[int]", proposable(offsets).tolist()))
    return len(ids) == count and min(ids) >= 0 and max(ids) < lender.vocab


class _Pair:
    def __init__(self, drafter: str, target: str) -> None:
        self.drafter, self.target = drafter, target

    def differ(self, what: str, theirs: int, ours: int) -> StartError:
        return StartError(
            f"the drafter {self.drafter} is made for {theirs} {what}, the target {self.target} has {ours}"
        )
