"""Gemma 4's assistant: a small network that looks into the target's own keys and values.

It has none of its own. Every step of a block stands at the position of the target's last column and
attends, by kind of layer, to the columns of the target's last layer of that kind that owns any. A
step reads the target's embedding of the token before it beside a hidden state: first the target's
(after its final norm), then what the step before gave. spec/drafters.md section 12.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models.gemma4_text import DecoderLayer, ModelArgs

from stoker.core.errors import StartError
from stoker.models.nets import shards
from stoker.models.nets.checkpoint import Checkpoint, fill
from stoker.models.view import View

SLIDING = "sliding_attention"
ORDERING = "masked_embedding.token_ordering"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the layers of one kind attend to."""

    keys: mx.array
    """[R, heads, columns, dim], normed and rotated, as the target wrote them."""
    values: mx.array
    mask: mx.array | None
    """bool [R, 1, 1, columns]; None: everything."""


class _Inner(nn.Module):
    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(args.vocab_size, args.hidden_size)
        self.layers = [DecoderLayer(args, n) for n in range(args.num_hidden_layers)]
        self.norm = nn.RMSNorm(args.hidden_size, args.rms_norm_eps)


class _Ordered(nn.Module):
    """The ordered embedding: scores clusters of tokens first, then the tokens of the best clusters."""

    def __init__(self, args: ModelArgs, clusters: int, best: int) -> None:
        super().__init__()
        self.best = best
        self.centroids = nn.Linear(args.hidden_size, clusters, bias=False)
        self.token_ordering = mx.zeros((args.vocab_size,), mx.int32)

    def __call__(self, h: mx.array, embedding: nn.Embedding) -> mx.array:
        """[..., V]: minus infinity for every token that this row did not score, so that it cannot be drawn."""
        scores = self.centroids(h)
        best = mx.argpartition(scores, kth=-self.best, axis=-1)[..., -self.best :]
        ordering = self.token_ordering.reshape(scores.shape[-1], -1)
        ids = ordering[best].reshape(*h.shape[:-1], -1)
        rows = embedding(ids)
        found = (rows @ h[..., None])[..., 0]
        everything = mx.full((*h.shape[:-1], ordering.size), -mx.inf, found.dtype)
        return mx.put_along_axis(everything, ids, found, axis=-1)


class GemmaAssistant(nn.Module):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        args = _args(config["text_config"])
        self.kinds: tuple[str, ...] = tuple(args.layer_types or ())
        self.window, self.vocab = args.sliding_window, args.vocab_size
        self.width: int = config["backbone_hidden_size"]
        """Features of the target's residual stream."""
        self.block: int = config.get("block_size") or 4
        """Columns of a round that it is made for, the anchor's included."""
        self.model = _Inner(args)
        self.pre_projection = nn.Linear(2 * self.width, args.hidden_size, bias=False)
        self.post_projection = nn.Linear(args.hidden_size, self.width, bias=False)
        if config.get("use_ordered_embeddings"):
            clusters, best = config.get("num_centroids", 2048), config.get("centroid_intermediate_top_k", 32)
            self.masked_embedding = _Ordered(args, clusters, best)
        elif not config.get("tie_word_embeddings", True):
            self.lm_head = nn.Linear(args.hidden_size, args.vocab_size, bias=False)

    def __call__(
        self, embedded: mx.array, hidden: mx.array, seen: Mapping[str, Seen], offset: mx.array
    ) -> tuple[mx.array, mx.array]:
        """One step: both inputs [R, 1, width], `offset` [R] the target's last position.

        Returns the logits [R, 1, V] and the hidden state for the next step [R, 1, width].
        """
        h = self.pre_projection(mx.concatenate([embedded, hidden], axis=-1))
        for kind, layer in zip(self.kinds, self.model.layers, strict=True):
            it = seen[kind]
            h, _, _ = layer(h, it.mask, None, shared_kv=(it.keys, it.values), offset=offset)
        h = self.model.norm(h)
        return self._head(h), self.post_projection(h)

    def _head(self, h: mx.array) -> mx.array:
        embedding = self.model.embed_tokens
        if "masked_embedding" in self:
            return self.masked_embedding(h, embedding)
        return self.lm_head(h) if "lm_head" in self else embedding.as_linear(h)

    def see(self, view: View) -> dict[str, Seen]:
        """What each kind of layer attends to; `view` has the layers in the order of `layer_types`.

        Past the window one key fewer than the target itself sees there, as the reference has it, whose
        rotating cache is full then.
        """
        lengths = mx.array(view.lengths, mx.int32)[:, None]
        return {
            kind: self._see(kind, keys, values, view, lengths)
            for kind, (keys, values) in zip(self.layer_types, view.layers, strict=True)
        }

    @property
    def layer_types(self) -> tuple[str, ...]:
        """Its kinds of layers, each once."""
        return tuple(dict.fromkeys(self.kinds))

    def heads(self, kind: str) -> tuple[int, int]:
        """Query heads of that kind's layers, and their width: the target's keys must be as wide."""
        attention = self.model.layers[self.kinds.index(kind)].self_attn
        return attention.n_heads, attention.head_dim

    def _see(self, kind: str, keys: mx.array, values: mx.array, view: View, lengths: mx.array) -> Seen:
        reaches = [self._reach(kind, length) for length in view.lengths]
        first = max(0, min(length - reach for length, reach in zip(view.lengths, reaches, strict=True)))
        keys, values = keys[:, :, first:], values[:, :, first:]
        if view.level:
            return Seen(keys, values, None)
        column = first + mx.arange(keys.shape[2])
        mask = (column < lengths) & (column >= lengths - mx.array(reaches, mx.int32)[:, None])
        return Seen(keys, values, mask[:, None, None])

    def _reach(self, kind: str, length: int) -> int:
        """How many of a row's last columns a layer of that kind sees."""
        if kind != SLIDING or length < self.window:
            return length
        return self.window - (length > self.window)


def load(path: Path, *, packed: bool | None = None) -> GemmaAssistant:
    """Raises StartError, one line. `packed`: see `checkpoint.fill`."""
    source = shards.read(path)
    text = source.config.get("text_config")
    if not isinstance(text, dict) or "backbone_hidden_size" not in source.config:
        raise StartError(f"the configuration of {path} has no text_config and backbone_hidden_size")
    if not text.get("rope_parameters"):
        raise StartError(f"the configuration of {path} has no rope_parameters, for which no default is right")
    net = GemmaAssistant(source.config)
    kept = {name: it for name, it in source.tensors.items() if not name.startswith("lm_head.") or "lm_head" in net}
    if ORDERING in kept:
        kept[ORDERING] = kept[ORDERING].astype(mx.int32)
    return fill(net, Checkpoint(str(path), source.config, kept), packed=packed)


def _args(text: Mapping[str, Any]) -> ModelArgs:
    """Of layers that own neither keys nor values. mlx-lm may write into what it is given, so it gets a copy."""
    layers = int(text["num_hidden_layers"])
    own = {"num_kv_shared_layers": layers, "hidden_size_per_layer_input": 0, "use_double_wide_mlp": False}
    return ModelArgs.from_dict(copy.deepcopy(dict(text)) | own)
