"""A block drafter's attention and decoder layer (Qwen3's form), over context in slot caches."""

from collections.abc import Callable

import mlx.core as mx
from mlx import nn
from mlx_lm.models.rope_utils import initialize_rope

from stoker.models.nets.block_config import BlockConfig, Sight
from stoker.models.nets.place import Place
from stoker.models.slots import SlotKV


class Attention(nn.Module):
    """Block rows attend to the context and to the block; context rows only leave keys and values.

    Context enters as it comes from `hidden_norm`, block rows as they come from `input_layernorm`; both
    go through the same projections.
    """

    def __init__(self, config: BlockConfig, sight: Sight) -> None:
        super().__init__()
        hidden, dim, bias = config.hidden, config.head_dim, config.bias
        self.q_proj = nn.Linear(hidden, config.heads * dim, bias=bias)
        self.k_proj = nn.Linear(hidden, config.kv_heads * dim, bias=bias)
        self.v_proj = nn.Linear(hidden, config.kv_heads * dim, bias=bias)
        self.o_proj = nn.Linear(config.heads * dim, hidden, bias=bias)
        self.q_norm = nn.RMSNorm(dim, eps=config.eps)
        self.k_norm = nn.RMSNorm(dim, eps=config.eps)
        if config.sinks:
            self.attention_sink_bias = mx.zeros((config.heads,))
        self._rope: Callable[..., mx.array] = initialize_rope(
            dim, config.rope_theta, config.interleaved, config.rope_scaling, config.positions
        )
        self._dim, self._sight, self._sinks = dim, sight, config.sinks

    def __call__(self, block: mx.array, context: mx.array, place: Place, cache: SlotKV) -> mx.array:
        """`block` [B, L, H] and new `context` [B, S, H]; returns [B, L, H]."""
        queries = self._rope(self.q_norm(self._heads(self.q_proj(block))), offset=place.offset)
        keys, values = self._remember(place.joined(context, block), place.span.offset, cache)
        out = mx.fast.scaled_dot_product_attention(
            queries,
            keys,
            values,
            scale=self._dim**-0.5,
            mask=place.mask(self._sight, place.span.bottom(cache.window)),
            sinks=self.attention_sink_bias if self._sinks else None,
        )
        return self.o_proj(out.transpose(0, 2, 1, 3).reshape(*block.shape[:2], -1))

    def extend(self, context: mx.array, cache: SlotKV) -> None:
        """New context [B, S, H] without a block."""
        self._remember(context, cache.span.offset, cache)

    def _remember(self, rows: mx.array, offset: int | mx.array, cache: SlotKV) -> tuple[mx.array, mx.array]:
        keys = self._rope(self.k_norm(self._heads(self.k_proj(rows))), offset=offset)
        return cache.update_and_fetch(keys, self._heads(self.v_proj(rows)))

    def _heads(self, x: mx.array) -> mx.array:
        """[B, n, heads · dim] to [B, heads, n, dim]."""
        return x.reshape(*x.shape[:2], -1, self._dim).transpose(0, 2, 1, 3)


class Feed(nn.Module):
    """The gated feed-forward."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        return self.down_proj(nn.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: BlockConfig, sight: Sight) -> None:
        super().__init__()
        self.self_attn = Attention(config, sight)
        self.mlp = Feed(config)
        self.input_layernorm = nn.RMSNorm(config.hidden, eps=config.eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden, eps=config.eps)

    def __call__(self, h: mx.array, context: mx.array, place: Place, cache: SlotKV) -> mx.array:
        h = h + self.self_attn(self.input_layernorm(h), context, place, cache)
        return h + self.mlp(self.post_attention_layernorm(h))
