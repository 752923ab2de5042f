"""DFlash: one bidirectional block of masks, every slot of which proposes by itself.

Layout, tensors and forward: specification of the drafters, section 9. `block_size` counts columns,
the anchor included; the anchor's own slot proposes nothing.
"""

from pathlib import Path

from stoker.models.nets import block_config
from stoker.models.nets.backbone import BlockLayout, BlockNet
from stoker.models.nets.block_config import BlockConfig
from stoker.models.nets.checkpoint import Checkpoint, fill, read
from stoker.models.nets.lender import Lender
from stoker.models.nets.pairing import require_fit

TABLES = ("embed_tokens", "lm_head")


class DFlashNet(BlockNet):
    """The checkpoint's own backbone and nothing besides."""


def load(path: Path, lender: Lender, *, packed: bool | None = None) -> DFlashNet:
    """The drafter in that directory, bound to its target. `packed`: see `checkpoint.fill`.

    Raises StartError, one line, for a checkpoint that is incomplete or made for another target.
    """
    checkpoint = read(path)
    config = block_config.read(checkpoint.config, checkpoint.path)
    require_fit(config, checkpoint, lender)
    net = fill(DFlashNet(config, layout(config), own(checkpoint)), checkpoint, packed=packed)
    net.borrow(lender)
    return net


def layout(config: BlockConfig) -> BlockLayout:
    run = min(config.run or config.block, config.block)
    return BlockLayout(columns=config.block, first=1, most=run - 1)


def own(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The tables that it brings itself."""
    return tuple(name for name in TABLES if checkpoint.has(name))
