"""From a path to a model that is ready to run."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.utils import dequantize_model

from stoker.core.errors import StartError
from stoker.core.info import ModelInfo, TokenizerSource
from stoker.models import detect, directory, gguf
from stoker.models.ftypes import gguf_ftype
from stoker.models.memory import available

log = logging.getLogger(__name__)

FLOAT32_BYTES = 4
SHARE_OF_MEMORY = 0.75
"""How much of the free memory float32 weights may take: the KV cache and activations need the rest."""
TEMPLATE_KEY = "tokenizer.chat_template"

Progress = Callable[[float], None]
FitsInMemory = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Loaded:
    model: nn.Module
    config: dict[str, Any]
    """As in config.json, `quantization` included if weights are packed."""
    info: ModelInfo
    tokenizer: TokenizerSource
    template: str | None
    """The chat template's Jinja text."""
    tool_template: str | None
    """The template for requests with tools, where the model has one of its own."""
    weights: str
    """How the weights are held, for the start-up log: `float32`, `packed (4-bit)`, …"""


def load(
    path: str, *, progress: Progress | None = None, layers: int | None = None, packed: bool | None = None
) -> Loaded:
    """Load a `.gguf` file or an MLX / Hugging Face directory.

    `progress` hears fractions from 0 to 1. `layers` keeps the first so many. `packed` says how weights are
    held: True as stored, False as float32; None chooses by backend: float32 on a CPU if that fits in memory,
    since MLX's CPU kernels for packed and half-precision weights are many times slower, else as stored.
    Raises StartError with one line.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise StartError(f"no model at {path}")
    detect.require_whole(place)
    report = progress or _ignore
    stored = _from_directory(place, path, layers) if place.is_dir() else _from_gguf(place, path, layers, report)
    if packed is None:
        model, config = _suit_backend(stored)
    else:
        model, config = _keep(stored) if packed else _unpack(stored)
    _evaluate(model, report)
    default, tools = stored.templates.get("default"), stored.templates.get("tool_use")
    return Loaded(model, config, stored.info, stored.tokenizer, default, tools, _held(model, config))


@dataclass(frozen=True, slots=True)
class _Stored:
    """A model whose weights are as the file has them, most of them still on disk."""

    model: nn.Module
    config: dict[str, Any]
    info: ModelInfo
    tokenizer: TokenizerSource
    templates: Mapping[str, str]
    dtype: mx.Dtype | None
    """The type that unpacked weights are held in when the packed ones stay packed; None: as stored."""


def is_cpu() -> bool:
    return mx.default_device().type == mx.DeviceType.cpu


def fits(parameters: int) -> bool:
    """True if so many float32 numbers leave room in memory."""
    return parameters * FLOAT32_BYTES <= SHARE_OF_MEMORY * available()


def _ignore(fraction: float) -> None:
    pass


def _from_gguf(place: Path, named: str, layers: int | None, report: Progress) -> _Stored:
    source = gguf.understand(place, layers)
    model = gguf.build(source, lambda fraction: report(fraction / 2))
    metadata = source.file.metadata
    info = ModelInfo(
        path=named,
        family=source.config["model_type"],
        ftype=gguf_ftype(source.file),
        vocab=source.config["vocab_size"],
        context=source.config["max_position_embeddings"],
        width=source.config["hidden_size"],
        parameters=source.parameters,
        size=source.size,
    )
    return _Stored(model, source.config, info, metadata, _templates(metadata), gguf.half_precision(source))


def _templates(metadata: Mapping[str, object]) -> dict[str, str]:
    named = {"default": metadata.get(TEMPLATE_KEY), "tool_use": metadata.get(f"{TEMPLATE_KEY}.tool_use")}
    return {name: text for name, text in named.items() if isinstance(text, str)}


def _from_directory(place: Path, named: str, layers: int | None) -> _Stored:
    model, config = directory.build(place, layers)
    settings = {**(config.get("text_config") or {}), **config}
    info = ModelInfo(
        path=named,
        family=str(settings["model_type"]),
        ftype=directory.ftype(model, config),
        vocab=int(settings.get("vocab_size", 0)),
        context=directory.context(config),
        width=int(settings.get("hidden_size", 0)),
        parameters=directory.parameters(model),
        size=directory.size(model),
    )
    return _Stored(model, config, info, place, directory.templates(place), None)


def _suit_backend(stored: _Stored) -> tuple[nn.Module, dict[str, Any]]:
    if not is_cpu():
        return _keep(stored)
    if fits(stored.info.parameters):
        return _unpack(stored)
    log.warning(
        "%s: float32 weights do not fit in memory, so they stay packed, which is slow on a CPU", stored.info.path
    )
    floats = [array for array in directory.arrays(stored.model) if mx.issubdtype(array.dtype, mx.floating)]
    if not fits(sum(array.size for array in floats)):
        return _keep(stored)
    # Measured on 2 cores, SmolLM2, 5 tokens: 0.65 s with float32 scales and activations, 20 s with float16.
    stored.model.set_dtype(mx.float32)
    return stored.model, stored.config


def _unpack(stored: _Stored) -> tuple[nn.Module, dict[str, Any]]:
    """All weights as float32, none packed."""
    stored.model.set_dtype(mx.float32)  # the scales first: a dequantised weight takes their type
    model = dequantize_model(stored.model)
    model.set_dtype(mx.float32)
    packing = ("quantization", "quantization_config")
    return model, {key: value for key, value in stored.config.items() if key not in packing}


def _keep(stored: _Stored) -> tuple[nn.Module, dict[str, Any]]:
    """Packed weights stay packed, and the others take the type that goes with them."""
    if stored.dtype is not None:
        stored.model.set_dtype(stored.dtype)
    return stored.model, stored.config


def _evaluate(model: nn.Module, report: Progress) -> None:
    arrays = directory.arrays(model)
    total = sum(array.nbytes for array in arrays) or 1
    done = 0
    for array in arrays:
        mx.eval(array)
        done += array.nbytes
        report(0.5 + done / total / 2)


def _held(model: nn.Module, config: dict[str, Any]) -> str:
    if isinstance(quantization := config.get("quantization"), dict):
        return f"packed ({quantization.get('bits')}-bit)"
    largest = max(directory.arrays(model), key=lambda array: array.size)
    return str(largest.dtype).removeprefix("mlx.core.")
