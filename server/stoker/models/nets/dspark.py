"""DSpark: DFlash's backbone with a Markov head, which corrects each slot by the token drawn before it.

Specification of the drafters, section 10. `block_size` counts proposals, and the anchor's slot is the
first that proposes (unless `sample_from_anchor` is false). The confidence head never judges a token; it
may end a block early.
"""

from pathlib import Path

import mlx.core as mx
from mlx import nn

from stoker.core.errors import StartError
from stoker.models.nets import block_config
from stoker.models.nets.backbone import BlockLayout, BlockNet
from stoker.models.nets.block_config import BlockConfig, Reader
from stoker.models.nets.checkpoint import Checkpoint, fill, read
from stoker.models.nets.dflash import own
from stoker.models.nets.lender import Lender
from stoker.models.nets.pairing import require_fit

VANILLA = "vanilla"
USUAL = 8
"""Columns of a round where the configuration does not say."""


class Markov(nn.Module):
    """A low-rank table of token-to-token corrections."""

    def __init__(self, vocab: int, rank: int, short: int | None = None) -> None:
        """`short`: tokens that can be proposed, if those are not all."""
        super().__init__()
        self.markov_w1 = nn.Embedding(vocab, rank)
        self.markov_w2 = nn.Linear(rank, short or vocab, bias=False)


class Confidence(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1, bias=True)


class DSparkNet(BlockNet):
    def __init__(self, config: BlockConfig, head: "Head", vocab: int, own: tuple[str, ...] = ()) -> None:
        super().__init__(config, head.layout(config), own)
        self.markov_head = Markov(vocab, head.rank, config.draft_vocab)
        if head.confidence:
            self.confidence_head = Confidence(config.hidden + head.rank * head.markov_confidence)
        self._markov_confidence = head.markov_confidence

    @property
    def has_confidence(self) -> bool:
        return "confidence_head" in self

    def corrected(self, logits: mx.array, previous: mx.array) -> mx.array:
        """A slot's logits [B, D] behind the tokens `previous` int32 [B]."""
        return logits + self.markov_head.markov_w2(self.markov_head.markov_w1(previous))

    def confidence(self, hidden: mx.array, previous: mx.array) -> mx.array:
        """How sure each slot is, float32 [B, n]: of hidden [B, n, H] and the tokens before them int32 [B, n]."""
        if self._markov_confidence:
            hidden = mx.concatenate([hidden, self.markov_head.markov_w1(previous)], axis=-1)
        return mx.sigmoid(self.confidence_head.proj(hidden)[..., 0].astype(mx.float32))


class Head:
    """What a DSpark configuration says beyond DFlash's. Raises StartError."""

    def __init__(self, reader: Reader) -> None:
        self.rank = reader.whole("markov_rank", 256)
        kind = reader.settings.get("markov_head_type") or VANILLA
        if kind != VANILLA:
            raise StartError(f"{reader.where}: markov_head_type {kind!r} is not supported, only {VANILLA} is")
        self.confidence = reader.flag("enable_confidence_head", default=False)
        self.markov_confidence = reader.flag("confidence_head_with_markov", default=True)
        self.from_anchor = reader.flag("sample_from_anchor", default=True)
        self.bonus_anchor = reader.flag("dspark_bonus_anchor", default=False)

    def layout(self, config: BlockConfig) -> BlockLayout:
        proposals = config.block - self.bonus_anchor
        run = min(config.run or min(USUAL, proposals + 1), proposals + 1)
        first = 0 if self.from_anchor else 1
        return BlockLayout(columns=proposals + first, first=first, most=run - 1)


def load(path: Path, lender: Lender, *, packed: bool | None = None) -> DSparkNet:
    """The drafter in that directory, bound to its target. `packed`: see `checkpoint.fill`.

    Raises StartError, one line, for a checkpoint that is incomplete or made for another target.
    """
    checkpoint = read(path)
    config = block_config.read(checkpoint.config, checkpoint.path)
    head = Head(Reader(checkpoint.config, checkpoint.path))
    require_fit(config, checkpoint, lender)
    _require_markov(checkpoint, config, lender)
    net = fill(DSparkNet(config, head, lender.vocab, own(checkpoint)), checkpoint, packed=packed)
    net.borrow(lender)
    return net


def _require_markov(checkpoint: Checkpoint, config: BlockConfig, lender: Lender) -> None:
    """Both tables need a row for each token that they may be asked for: a gather checks no range."""
    for name, tokens in (("markov_w1", lender.vocab), ("markov_w2", config.draft_vocab or lender.vocab)):
        table = checkpoint.tensors.get(f"markov_head.{name}.weight")
        if table is not None and table.shape[0] != tokens:
            raise StartError(
                f"the drafter {checkpoint.path} has {name} for {table.shape[0]} tokens, "
                f"the target {lender.name} needs {tokens}"
            )
