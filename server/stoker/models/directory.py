"""An MLX or Hugging Face directory as one of mlx-lm's models, and what its small files say."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.utils import get_total_parameters, load_config, load_model

from stoker.core.errors import StartError
from stoker.models.gguf import keep_layers

DTYPES = {mx.float32: "all F32", mx.float16: "F16", mx.bfloat16: "BF16"}


def build(path: Path, layers: int | None) -> tuple[nn.Module, dict[str, Any]]:
    """The model with its weights still on disk, and its configuration. Raises StartError, one line."""
    check(path)
    try:
        model, config = load_model(path, lazy=True)
        if layers is not None:
            kept = keep_layers(config, layers)
            model, config = load_model(path, lazy=True, strict=False, model_config=kept)
    except (ValueError, TypeError, KeyError, RuntimeError, OSError) as error:
        first = (str(error).splitlines() or [repr(error)])[0]
        raise StartError(f"cannot load {path}: {first}") from error
    return model, config


def check(path: Path) -> None:
    """Raises StartError if the directory cannot hold a model."""
    if not (path / "config.json").exists():
        raise StartError(f"{path} holds no config.json: it is neither an MLX nor a Hugging Face model directory")
    if not any(path.glob("model*.safetensors")):
        raise StartError(f"{path} holds no weights (model*.safetensors)")
    try:
        load_config(path)
    except ValueError as error:
        raise StartError(f"{path / 'config.json'} is no JSON: {error}") from error


def parameters(model: nn.Module) -> int:
    return int(get_total_parameters(model))


def arrays(model: nn.Module) -> list[mx.array]:
    return [array for _, array in tree_flatten(model.parameters()) if isinstance(array, mx.array)]


def size(model: nn.Module) -> int:
    """Bytes of the weights as they are held now."""
    return sum(array.nbytes for array in arrays(model))


def ftype(model: nn.Module, config: dict[str, Any]) -> str:
    """`4-bit` for packed weights, else the format of the largest weight in llama-server's words."""
    quantization = config.get("quantization")
    if isinstance(quantization, dict) and "bits" in quantization:
        return f"{quantization['bits']}-bit"
    return DTYPES.get(max(arrays(model), key=lambda array: array.size).dtype, "unknown, may not work")


def context(config: dict[str, Any]) -> int:
    """Trained context in tokens, 0 if the configuration does not say."""
    for settings in (config, config.get("text_config") or {}):
        if isinstance(found := settings.get("max_position_embeddings"), int):
            return found
    return 0


def templates(path: Path) -> dict[str, str]:
    """Chat templates by name; the plain one is `default`. A file of its own wins over the tokenizer's settings."""
    found: dict[str, str] = {}
    for name, key in (("tokenizer_config.json", "chat_template"), ("chat_template.json", "chat_template")):
        if (path / name).exists():
            found.update(_named(_json(path / name).get(key)))
    if (path / "chat_template.jinja").exists():
        found["default"] = (path / "chat_template.jinja").read_text("utf-8")
    for extra in sorted(path.glob("additional_chat_templates/*.jinja")):
        found[extra.stem] = extra.read_text("utf-8")
    return found


def _named(value: object) -> dict[str, str]:
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        return {str(entry["name"]): str(entry["template"]) for entry in value}
    return {}


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise StartError(f"{path} is no JSON: {error}") from error
