"""What a model makes of a token before its head: the residual stream behind the last layer, normed."""

from collections.abc import Callable
from typing import cast

import mlx.core as mx
from mlx import nn

from stoker.core.errors import StartError

NORMS = ("norm", "embedding_norm", "final_layernorm", "final_layer_norm", "final_norm", "ln_f", "norm_f", "model_norm")
"""What mlx-lm's models call the norm behind their layers."""

Norm = Callable[[mx.array], mx.array]


def find_norm(model: nn.Module) -> Norm | None:
    """The norm between the last layer and the head; None where no name of it is known."""
    first = cast("list[nn.Module]", model.layers)[0]
    for module in model.modules():
        values = cast("dict[str, object]", module)
        owns = any(isinstance(value, list) and value and value[0] is first for value in values.values())
        found = [values[name] for name in NORMS if name in values] if owns else []
        if found:
            return cast("Norm", found[0])
    return None


def final_norm(model: nn.Module) -> Norm:
    """The same; StartError, naming the model, where there is none."""
    found = find_norm(model)
    if found is not None:
        return found
    name = f"{type(model).__module__}.{type(model).__name__}"
    raise StartError(f"{name} has no final norm by a known name, so it makes no embeddings")
