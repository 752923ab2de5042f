"""What the nets of all block drafters share: from the target's residual streams and an anchor to hidden states.

A kind of drafter is a subclass that says how its block is laid out (`Layout`) and what makes proposals
of the hidden states. Parameter names are those of the published checkpoints. `draft_vocab_size` and `d2t`, as in
EAGLE-3's checkpoints, make the head a short one: most of a small drafter's time is the head's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import KVCache, RotatingKVCache

from stoker.models.nets.attention import Layer
from stoker.models.nets.block_config import BlockConfig
from stoker.models.nets.lender import Lender, rows_of
from stoker.models.nets.pairing import proposable
from stoker.models.nets.place import Place
from stoker.models.slots import SlotKV


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """A block is the anchor and masks; its hidden states from `first` on propose, one token each."""

    columns: int
    """Of the block, as trained. It sees how many masks there are, so it is never made narrower."""
    first: int
    most: int
    """Proposals that a round may hold: `columns - first`, or fewer."""


class BlockNet(nn.Module):
    """A drafter's network. Needs `borrow` before use."""

    def __init__(self, config: BlockConfig, layout: BlockLayout, own: Sequence[str] = ()) -> None:
        """`own`: tables that the checkpoint brings itself, `embed_tokens` or `lm_head`."""
        super().__init__()
        self.config, self.layout = config, layout
        self.fc = nn.Linear(len(config.taps) * config.hidden, config.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(config.hidden, eps=config.eps)
        self.layers = [Layer(config, sight) for sight in config.sights]
        self.norm = nn.RMSNorm(config.hidden, eps=config.eps)
        if "embed_tokens" in own:
            self.embed_tokens = nn.Embedding(config.vocab or 0, config.hidden)
        if "lm_head" in own:
            self.lm_head = nn.Linear(config.hidden, config.draft_vocab or config.vocab or 0, bias=False)
        if config.draft_vocab is not None:
            self.d2t = mx.zeros((config.draft_vocab,), mx.int32)
        self._lender: Lender | None = None
        self._ids: mx.array | None = None
        """The tokens that it can propose, int32 [D]; None: all."""
        self._short: Callable[[mx.array], mx.array] | None = None

    def borrow(self, lender: Lender) -> None:
        """Take from the target what the checkpoint does not bring."""
        self._lender = lender
        if "d2t" not in self:
            return
        self._ids = proposable(self.d2t)
        if "lm_head" not in self:
            tied = "embed_tokens" in self and not lender.untied
            self._short = rows_of(self.embed_tokens, self._ids) if tied else lender.head_of(self._ids)

    @property
    def lender(self) -> Lender:
        if self._lender is None:
            raise RuntimeError("this drafter has not borrowed from a target yet")
        return self._lender

    @property
    def dtype(self) -> mx.Dtype:
        """In which it computes: that of its norms, which are never packed."""
        return self.norm.weight.dtype

    def make_cache(self) -> list[Any]:
        """mlx-lm's caches, for which slot caches then stand in: one a layer."""
        windows = [sight.window for sight in self.config.sights]
        return [KVCache() if window is None else RotatingKVCache(max_size=window) for window in windows]

    def condense(self, features: mx.array) -> mx.array:
        """Residual streams side by side [B, S, T · H] to context rows [B, S, H]."""
        return self.hidden_norm(self.fc(features.astype(self.dtype)))

    def block(self, anchors: mx.array) -> mx.array:
        """Embedded blocks of anchors int32 [B]: [B, L, H]."""
        masks = mx.full((anchors.shape[0], self.layout.columns - 1), self.config.mask, mx.int32)
        return self.embed(mx.concatenate([anchors[:, None], masks], axis=1))

    def embed(self, ids: mx.array) -> mx.array:
        """Token ids [B, n] to rows [B, n, H]."""
        scale = self.config.embed_scale
        if "embed_tokens" in self:
            found = self.embed_tokens(ids)
        else:
            found = self.lender.embedding(ids)
            scale = self.lender.scale if scale is None else scale
        return (found if scale is None or scale == 1.0 else found * scale).astype(self.dtype)

    def hidden(self, block: mx.array, context: mx.array, place: Place, caches: Sequence[SlotKV]) -> mx.array:
        """Hidden states of the columns that propose, [B, columns - first, H], after the final norm."""
        h = block
        for layer, cache in zip(self.layers, caches, strict=True):
            h = layer(h, context, place, cache)
        return self.norm(h[:, self.layout.first :])

    def extend(self, context: mx.array, caches: Sequence[SlotKV]) -> None:
        """Context rows that no block follows."""
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.self_attn.extend(context, cache)

    def logits(self, hidden: mx.array) -> mx.array:
        """[B, n, H] to [B, n, D]: for the tokens that it can propose, which are all unless it says otherwise."""
        hidden = hidden if self.config.multiplier == 1.0 else hidden * self.config.multiplier
        logits = self._head(hidden)
        cap = self.config.softcap
        return logits if cap is None else mx.tanh(logits / cap) * cap

    def spread(self, logits: mx.array) -> mx.array:
        """[…, D] to […, V]: a token that it cannot propose has no chance."""
        if self._ids is None:
            return logits
        none = mx.full((*logits.shape[:-1], self.lender.vocab), -mx.inf, logits.dtype)
        return mx.put_along_axis(none, mx.broadcast_to(self._ids, logits.shape), logits, axis=-1)

    def _head(self, hidden: mx.array) -> mx.array:
        """Its own head; else the target's, which is the drafter's own table where the target's is tied."""
        if self._short is not None:
            return self._short(hidden)
        if "lm_head" in self:
            return self.lm_head(hidden)
        if "embed_tokens" in self and not self.lender.untied:
            return self.embed_tokens.as_linear(hidden)
        return self.lender.head(hidden)
