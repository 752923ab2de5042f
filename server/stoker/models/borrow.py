"""What drafters borrow of the target's network: its embedding, its head, its final norm. Nothing is copied."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
from mlx import nn

from stoker.core.errors import StartError


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Parts of one model of mlx-lm's, as they stand in it."""

    family: str
    """The model's `model_type`."""
    embedding: nn.Embedding
    scale: float
    """What the model multiplies its embeddings by (Gemma 4), else 1."""
    head: Callable[[mx.array], mx.array]
    """[…, H] → [..., V], without the scaling and the cap that some models apply afterwards."""
    norm: Callable[[mx.array], mx.array]
    """The final norm: from the residual stream behind the last layer to what the head reads."""
    layers: tuple[nn.Module, ...]
    width: int
    """Features of the residual stream."""

    def embed(self, ids: mx.array) -> mx.array:
        """What the first layer reads for these ids: int32 [...] → [..., H]."""
        found = self.embedding(ids)
        return found if self.scale == 1.0 else found * self.scale


def borrow(model: nn.Module) -> Borrowed:
    """Raises StartError, naming the model's class, where the parts are not where mlx-lm's models have them."""
    head_of = model.get("language_model", model)
    body = head_of.get("model", head_of)
    norm = next((body[name] for name in ("norm", "embedding_norm") if name in body), None)
    if "embed_tokens" not in body or norm is None:
        name = f"{type(model).__module__}.{type(model).__name__}"
        raise StartError(f"{name} has no embedding and final norm that a drafter could borrow")
    embedding: nn.Embedding = body["embed_tokens"]
    return Borrowed(
        family=str(model.model_type),
        embedding=embedding,
        scale=float(getattr(body, "embed_scale", 1.0)),
        head=head_of.get("lm_head", embedding.as_linear),
        norm=norm,
        layers=tuple(model.layers),
        width=int(norm["weight"].shape[-1]),
    )
