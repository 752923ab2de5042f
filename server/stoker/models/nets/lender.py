"""What a block drafter borrows from its target: the embedding table and the head, raw, and its measures."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
from mlx import nn

from stoker.core.errors import StartError
from stoker.models.features import find_norm
from stoker.models.target import Target

TABLES = ("embed_tokens", "embeddings", "wte", "tok_embeddings", "word_embeddings")
"""What mlx-lm's models call their embedding."""
HEAD = "lm_head"
ROOT_SCALED = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text"})
"""Families that multiply embeddings by the root of their width, in the middle of their forward."""


@dataclass(frozen=True, slots=True)
class Lender:
    name: str
    """The model's class, for errors."""
    vocab: int
    """Width of the logits."""
    width: int
    """Of the residual stream."""
    depth: int
    """Decoder layers."""
    embedding: nn.Module
    scale: float
    """Of its embeddings."""
    head: Callable[[mx.array], mx.array]
    """[B, n, width] to [B, n, vocab], without the target's scaling and softcap."""
    untied: bool
    """True: the head is a matrix of its own."""
    table: nn.Module | None = None
    """What the head multiplies by: a matrix with a row for each token, packed or not; None: not known."""
    norm: Callable[[mx.array], mx.array] | None = None
    """The final norm: from the residual stream behind the last layer to what the head reads; None: not found."""

    def embed(self, ids: mx.array) -> mx.array:
        """What the target's first layer reads for these ids: int32 [...] to [..., width]."""
        found = self.embedding(ids)
        return found if self.scale == 1.0 else found * self.scale

    def head_of(self, ids: mx.array) -> Callable[[mx.array], mx.array]:
        """The head for some tokens only, int32 [D]: [B, n, width] to [B, n, D]. RuntimeError where it is no matrix."""
        if self.table is None:
            raise RuntimeError(f"{self.name}: its head is no matrix of which rows could be taken")
        return rows_of(self.table, ids)

    def final(self, stream: mx.array) -> mx.array:
        """The residual stream behind the last layer, after the final norm. RuntimeError where that was not found."""
        if self.norm is None:
            raise RuntimeError(f"{self.name}: no final norm is found")
        return self.norm(stream)


def rows_of(table: nn.Module, ids: mx.array) -> Callable[[mx.array], mx.array]:
    """Some rows of an embedding or a linear layer, packed or not, as a linear layer of their own."""
    parts = {name: table[name][ids] for name in ("weight", "scales", "biases", "bias") if name in table}
    mx.eval(list(parts.values()))
    weight, bias = parts["weight"], parts.get("bias")
    if isinstance(table, nn.QuantizedEmbedding | nn.QuantizedLinear):
        packing = {"group_size": table.group_size, "bits": table.bits, "mode": table.mode}
        scales, zeros = parts["scales"], parts.get("biases")

        def product(x: mx.array) -> mx.array:
            return mx.quantized_matmul(x, weight, scales, zeros, transpose=True, **packing)
    else:

        def product(x: mx.array) -> mx.array:
            return x @ weight.T

    return product if bias is None else lambda x: product(x) + bias


def lend(target: Target) -> Lender:
    """Raises StartError, naming the model's class, if its embedding is not found."""
    model = target.model
    modules = sorted(model.named_modules(), key=lambda item: item[0].count("."))
    name = f"{type(model).__module__}.{type(model).__name__}"
    table = next((module for path, module in modules if path.rpartition(".")[2] in TABLES), None)
    if not isinstance(table, nn.Embedding | nn.QuantizedEmbedding):
        raise StartError(f"{name}: no embedding table is found that a drafter could borrow")
    head = next((module for path, module in modules if path.rpartition(".")[2] == HEAD), None)
    return Lender(
        name=name,
        vocab=target.vocab,
        width=_width(table),
        depth=target.depth,
        embedding=table,
        scale=_scale(model, modules, _width(table)),
        head=table.as_linear if head is None else head,
        untied=head is not None,
        table=table if head is None else head,
        norm=find_norm(model),
    )


def _width(table: nn.Module) -> int:
    """Of an embedding, packed or not."""
    return table.dims if isinstance(table, nn.QuantizedEmbedding) else table["weight"].shape[-1]


def _scale(model: nn.Module, modules: list[tuple[str, nn.Module]], width: int) -> float:
    """What the model multiplies its embeddings by: mlx-lm keeps it as `embed_scale`, if it keeps it at all."""
    for _, module in modules:
        found = vars(module).get("embed_scale")
        if isinstance(found, int | float):
            return float(found)
    return width**0.5 if model.model_type in ROOT_SCALED else 1.0
