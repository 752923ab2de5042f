"""Checkpoints of drafters, read strictly: every tensor has a place, every place a tensor of the right shape."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.utils import dequantize_model

from stoker.core.errors import StartError
from stoker.models.load import is_cpu

Net = TypeVar("Net", bound=nn.Module)
GROUP, BITS = 64, 4
"""MLX's defaults for packed weights."""
STALE = ("rotary_emb.inv_freq",)
"""Ends of names that some conversions leave and nobody needs."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    path: str
    config: Mapping[str, Any]
    tensors: dict[str, mx.array]
    """By name, without the `model.` that some conversions put in front; still on disk."""

    def has(self, stem: str) -> bool:
        return f"{stem}.weight" in self.tensors


def read(path: Path, rename: Mapping[str, str] | None = None) -> Checkpoint:
    """A directory with config.json and safetensors. `rename` gives other beginnings of names.

    Raises StartError, one line.
    """
    place = path.expanduser()
    files = sorted(place.glob("*.safetensors"))
    if not files:
        raise StartError(f"{path} holds no weights (*.safetensors)")
    try:
        config = json.loads((place / "config.json").read_text("utf-8"))
        tensors: dict[str, mx.array] = {}
        for file in files:
            tensors |= cast("dict[str, mx.array]", mx.load(str(file)))
    except (OSError, ValueError, RuntimeError) as error:
        raise StartError(f"cannot load the drafter {path}: {(str(error).splitlines() or [repr(error)])[0]}") from error
    named = {_named(name, rename or {}): tensor for name, tensor in tensors.items() if not name.endswith(STALE)}
    if len(named) + sum(name.endswith(STALE) for name in tensors) != len(tensors):
        raise StartError(f"{path}: two of its tensors have one name")
    return Checkpoint(str(path), cast("Mapping[str, Any]", config), named)


def fill(net: Net, checkpoint: Checkpoint, *, packed: bool | None = None) -> Net:
    """Gives the net its weights. `packed` True: as stored; False: float32; None: as the backend likes it.

    Returns the net, since unpacking replaces modules. Raises StartError for a tensor that is missing,
    unknown or of another shape than the configuration says.
    """
    _quantize(net, checkpoint)
    expected = dict(cast("list[tuple[str, mx.array]]", tree_flatten(net.parameters())))
    found = checkpoint.tensors
    for name in sorted(expected.keys() - found.keys()):
        raise StartError(f"{checkpoint.path}: tensor {name} is missing")
    for name in sorted(found.keys() - expected.keys()):
        raise StartError(f"{checkpoint.path}: tensor {name} is unknown in a {type(net).__name__}")
    for name, wanted in expected.items():
        if found[name].shape != wanted.shape:
            raise StartError(
                f"{checkpoint.path}: tensor {name} has shape {list(found[name].shape)}, "
                f"and its configuration says {list(wanted.shape)}"
            )
    net.load_weights(list(found.items()), strict=True)
    if packed is False or (packed is None and is_cpu()):
        net.set_dtype(mx.float32)
        net = cast("Net", dequantize_model(net))
        net.set_dtype(mx.float32)
    net.eval()
    mx.eval(net.parameters())
    return net


def _named(name: str, rename: Mapping[str, str]) -> str:
    name = name.removeprefix("model.")
    for old, new in rename.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _quantize(net: nn.Module, checkpoint: Checkpoint) -> None:
    """Packs the modules whose tensors are packed, as the configuration says of each."""
    packing = checkpoint.config.get("quantization") or checkpoint.config.get("quantization_config") or {}
    stems = {name.removesuffix(".scales") for name in checkpoint.tensors if name.endswith(".scales")}
    if not stems:
        return
    if not isinstance(packing, Mapping):
        raise StartError(f"{checkpoint.path}: its tensors are packed and its quantization is {packing!r}")
    try:
        nn.quantize(
            net,
            int(packing.get("group_size", GROUP)),
            int(packing.get("bits", BITS)),
            mode=packing.get("mode", "affine"),
            class_predicate=_chooser(cast("Mapping[str, Any]", packing), stems),
        )
    except (ValueError, TypeError) as error:
        raise StartError(f"{checkpoint.path}: cannot unpack its tensors: {error}") from error


def _chooser(packing: Mapping[str, Any], stems: set[str]) -> Callable[[str, nn.Module], bool | dict[str, Any]]:
    def choose(path: str, module: nn.Module) -> bool | dict[str, Any]:
        if path not in stems or not hasattr(module, "to_quantized"):
            return False
        own = packing.get(path)
        return dict(own) if isinstance(own, Mapping) else True

    return choose
