"""A GGUF file as one of mlx-lm's models."""

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from gguf.constants import GGMLQuantizationType as Kind
from mlx import nn

from stoker.core.errors import StartError
from stoker.models import architectures
from stoker.models.architectures import CONSUMED, Architecture, Header
from stoker.models.gguf_file import GgufFile, TensorEntry, read_header
from stoker.models.packing import GROUP, Packed, Weight, is_native, read_mixed, read_native

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class GgufModel:
    """A file that was understood but whose weights were not read yet."""

    file: GgufFile
    architecture: Architecture
    config: dict[str, Any]
    tensors: tuple[TensorEntry, ...]
    """The tensors to read: those of the wanted layers, and those outside layers."""

    @property
    def parameters(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def size(self) -> int:
        """Bytes, as stored."""
        return sum(tensor.nbytes for tensor in self.tensors)


def understand(path: Path, layers: int | None = None) -> GgufModel:
    """Reads the header. Raises StartError for a damaged file, an unknown architecture, too many `layers`."""
    file = read_header(path)
    architecture = architectures.find(file)
    config: dict[str, Any] = dict(architecture.configure(Header(file, architecture.name)))
    if layers is not None:
        config = keep_layers(config, layers)
    tensors = tuple(tensor for tensor in file.tensors if _is_kept(tensor.name, layers))
    return GgufModel(file, architecture, config, tensors)


def build(source: GgufModel, progress: Progress) -> nn.Module:
    """Reads the weights, packed where MLX has the format.

    Packed weights get their bits layer by layer, recorded in `source.config["quantization"]`.
    Weights that are not packed keep the type they have: float32, float16, or bfloat16 cast from it.
    """
    weights: dict[str, mx.array] = {}
    bits: dict[str, int] = {}
    for done, (tensor, weight) in enumerate(_read(source), 1):
        _place(source, tensor, weight, weights, bits)
        progress(done / len(source.tensors))
    _complete_biases(source.config, weights)
    model = _instantiate(source.config)
    weights = model.sanitize(weights)
    if bits:
        source.config["quantization"] = _quantization(bits)
        nn.quantize(model, GROUP, 4, class_predicate=lambda path, _: _parameters(bits, path))
    try:
        model.load_weights(list(weights.items()), strict=True)
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise StartError(f"{source.file.path}: its tensors do not fit {source.architecture.name}: {first}") from error
    model.eval()
    return model


def half_precision(source: GgufModel) -> mx.Dtype:
    """The type for weights that are not packed, on a GPU: bfloat16 or float32 if the file is written in it."""
    kinds = {tensor.kind for tensor in source.tensors}
    if Kind.BF16 in kinds:
        return mx.bfloat16
    return mx.float32 if kinds == {Kind.F32} else mx.float16


def keep_layers(config: dict[str, Any], layers: int) -> dict[str, Any]:
    """The configuration of a model's first layers. Raises StartError if it has fewer, or none that attends."""
    depth = config.get("num_hidden_layers")
    if not isinstance(depth, int) or not 1 <= layers <= depth:
        raise StartError(f"cannot keep {layers} layers: the model has {depth}")
    config = {**config, "num_hidden_layers": layers}
    if isinstance(types := config.get("layer_types"), list):
        config["layer_types"] = types[:layers]
        config.pop("full_attn_idxs", None)
        if "full_attention" not in config["layer_types"]:
            raise StartError(f"cannot keep {layers} layers: the first with full attention is {_first(types)}")
    if layers < config.get("sliding_window_pattern", 1):
        raise StartError(f"cannot keep {layers} layers: {config['sliding_window_pattern']} form a pattern")
    return config


def _first(types: list[str]) -> str:
    return f"number {types.index('full_attention') + 1}" if "full_attention" in types else "missing"


def _is_kept(tensor: str, layers: int | None) -> bool:
    layer = architectures.layer_of(tensor)
    return layer is None or layers is None or layer < layers


def _read(source: GgufModel) -> Iterator[tuple[TensorEntry, Weight]]:
    reader = read_native if is_native(source.file) else read_mixed
    return reader(source.file, source.tensors)


def _place(
    source: GgufModel, tensor: TensorEntry, weight: Weight, weights: dict[str, mx.array], bits: dict[str, int]
) -> None:
    """Enter one tensor under mlx-lm's name, in mlx-lm's convention."""
    if tensor.name in CONSUMED:
        return
    name = source.architecture.rename(tensor.name)
    if name is None:
        raise StartError(f"{source.file.path}: tensor {tensor.name} is unknown in {source.architecture.name} models")
    if isinstance(weight, Packed):
        stem = name.removesuffix(".weight")
        weights[name], weights[f"{stem}.scales"], weights[f"{stem}.biases"] = weight.words, weight.scales, weight.biases
        bits[stem] = weight.bits
        return
    if source.architecture.norm_offset and name.endswith("norm.weight"):
        weight = weight - source.architecture.norm_offset
    if name.endswith("conv.conv.weight"):
        # File: (channels, taps), depthwise. MLX: (channels, taps, inputs per group).
        weight = weight.reshape(weight.shape[0], -1, 1)
    weights[name] = weight.astype(mx.bfloat16) if tensor.kind is Kind.BF16 else weight


def _complete_biases(config: dict[str, Any], weights: dict[str, mx.array]) -> None:
    """mlx-lm's llama has biases on all four projections or on none; a missing one is zero."""
    if not config.get("attention_bias"):
        return
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}.self_attn.o_proj.bias"
        weights.setdefault(name, mx.zeros((config["hidden_size"],)))


def _instantiate(config: dict[str, Any]) -> Any:
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    return module.Model(module.ModelArgs.from_dict(config))


def _quantization(bits: dict[str, int]) -> dict[str, Any]:
    """mlx-lm's `quantization`: the commonest bits for all, the others by name."""
    common = Counter(bits.values()).most_common(1)[0][0]
    others = {path: _parameters(bits, path) for path, count in bits.items() if count != common}
    return {"group_size": GROUP, "bits": common, "mode": "affine", **others}


def _parameters(bits: dict[str, int], path: str) -> Any:
    """What `nn.quantize` asks for each module: how it is packed, or False."""
    return {"group_size": GROUP, "bits": bits[path], "mode": "affine"} if path in bits else False
