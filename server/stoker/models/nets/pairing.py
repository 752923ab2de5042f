"""Does a block drafter fit its target? Refused before the first request, with both sides in one line."""

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


class _Pair:
    def __init__(self, drafter: str, target: str) -> None:
        self.drafter, self.target = drafter, target

    def differ(self, what: str, theirs: int, ours: int) -> StartError:
        return StartError(
            f"the drafter {self.drafter} is made for {theirs} {what}, the target {self.target} has {ours}"
        )
