"""A drafter's checkpoint on disk: its configuration, its tensors, and how they come into a network."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.utils import dequantize_model

from stoker.core.errors import StartError
from stoker.models.load import fits, is_cpu

Weights = dict[str, mx.array]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors are still on disk."""

    path: Path
    config: dict[str, Any]
    weights: Weights
    mlx: bool
    """True: MLX wrote the files, so nothing in them waits to be converted."""


def read(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> Checkpoint:
    """The tensors of a directory whose names are wanted. Raises StartError, one line."""
    try:
        config = json.loads((path / "config.json").read_text("utf-8"))
        shards = [(weights, metadata) for weights, metadata in _shards(path) if any(map(wanted, weights))]
    except (OSError, ValueError, RuntimeError) as error:
        raise StartError(f"cannot read the drafter {path}: {error}") from error
    weights = {name: array for found, _ in shards for name, array in found.items() if wanted(name)}
    mlx = bool(shards) and all(metadata.get("format") == "mlx" for _, metadata in shards)
    return Checkpoint(path, config, weights, mlx)


def fill(net: nn.Module, source: Checkpoint, weights: Weights, *, prefix: str = "", packed: bool | None = None) -> None:
    """Loads the weights into the network, all of them and no others, packed ones as the configuration says.

    `prefix`: what the configuration's names have before the network's. `packed` False unpacks them into
    float32, as the target's are on a CPU; None chooses by backend. Raises StartError naming what does not fit.
    """
    scaled = {name.removesuffix(".scales") for name in weights if name.endswith(".scales")}
    if scaled:
        _pack(net, scaled, source.config, prefix)
    _check(net, source, weights)
    net.load_weights(list(weights.items()))
    if packed is None:
        packed = not (is_cpu() and fits(sum(array.size for array in weights.values())))
    if not packed:
        net.set_dtype(mx.float32)
        dequantize_model(net)
        net.set_dtype(mx.float32)
    net.eval()
    mx.eval(net.parameters())


def _shards(path: Path) -> Iterator[tuple[Weights, Mapping[str, str]]]:
    for file in sorted(path.glob("*.safetensors")):
        yield mx.load(str(file), return_metadata=True)  # type: ignore[misc]


def _pack(net: nn.Module, scaled: set[str], config: Mapping[str, Any], prefix: str) -> None:
    settings = config.get("quantization") or config.get("quantization_config") or {}
    shared = {key: settings[key] for key in ("group_size", "bits", "mode") if key in settings}

    def choose(name: str, module: nn.Module) -> bool | dict[str, Any]:
        if name not in scaled or not hasattr(module, "to_quantized"):
            return False
        own = settings.get(prefix + name, settings.get(name))
        return {**shared, **own} if isinstance(own, dict) else dict(shared)

    nn.quantize(net, class_predicate=choose)


def _check(net: nn.Module, source: Checkpoint, weights: Weights) -> None:
    expected = dict(tree_flatten(net.parameters()))
    missing, more = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    if missing or more:
        said = [f"lacks {', '.join(missing[:3])}"] if missing else []
        said += [f"has {', '.join(more[:3])}, which nothing reads"] if more else []
        raise StartError(f"the drafter {source.path} {' and '.join(said)}")
    for name, array in weights.items():
        if array.shape != expected[name].shape:
            raise StartError(f"the drafter {source.path} has {name} {array.shape}, not {expected[name].shape}")
