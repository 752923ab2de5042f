"""Qwen3.5's own heads for the tokens after next: native `mtp.*` tensors of the target's shards, or a sidecar.

One step reads the embedding of token i + 1 and the target's hidden state of position i (after its final
norm), runs full-attention layers of the target's kind over both, and gives a hidden state that the
target's head reads as the prediction of token i + 2. spec/drafters.md section 13.
"""

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache
from mlx_lm.models.qwen3_5 import DecoderLayer, TextModelArgs

from stoker.core.errors import StartError
from stoker.models.detect import QWEN_SIDECAR
from stoker.models.nets import shards
from stoker.models.nets.checkpoint import Checkpoint, fill
from stoker.models.nets.shards import Shards

MARK = "mtp."
"""What the native tensors' names begin with, behind whatever holds the language model."""
Weights = dict[str, mx.array]
_EXPERT = re.compile(r"(.*)\.experts\.(\d+)\.(gate_proj|up_proj|down_proj)\.(weight|scales|biases)")
_FUSED = re.compile(r"(.*)\.experts\.(gate_up_proj|down_proj)(?:[._](weight|scales|biases))?")


class Qwen35Mtp(nn.Module):
    """The heads. `depth` layers stand one behind the other in a step."""

    model_type = QWEN_SIDECAR

    def __init__(self, text_config: Mapping[str, Any]) -> None:
        super().__init__()
        self.depth = int(text_config.get("mtp_num_hidden_layers") or 1)
        args = _args(text_config)
        width, eps = args.hidden_size, args.rms_norm_eps
        self.width, self.vocab = width, args.vocab_size
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.pre_fc_norm_embedding = nn.RMSNorm(width, eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(width, eps)
        self.layers = [DecoderLayer(args, n) for n in range(self.depth)]
        self.column_size: int = 2 * self.depth * args.num_key_value_heads * (args.head_dim or 0)
        """Numbers that a column of its own caches holds."""
        self.norm = nn.RMSNorm(width, eps)

    def __call__(self, embedded: mx.array, hidden: mx.array, cache: list[Any]) -> mx.array:
        """Both [B, L, H], row for row; the result [B, L, H] is what the target's head reads."""
        joined = mx.concatenate([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)], axis=-1)
        x = self.fc(joined)
        mask: Any = create_attention_mask(x, cache[0])
        for layer, own in zip(self.layers, cache, strict=True):
            x = layer(x, mask=mask, cache=own)
        return self.norm(x)

    def make_cache(self) -> list[KVCache]:
        return [KVCache() for _ in self.layers]


def load(path: Path, *, packed: bool | None = None) -> Qwen35Mtp:
    """The heads of a sidecar, or those in a whole checkpoint's shards. Raises StartError, one line.

    `packed`: see `checkpoint.fill`.
    """
    source = native(path)
    if not source.tensors:
        source = shards.read(path)
        if source.config.get("model_type") != QWEN_SIDECAR:
            raise StartError(
                f"{path} holds no mtp.* tensors: its conversion has dropped them, "
                "and stoker convert --mtp writes them from the original checkpoint"
            )
    return _built(source, packed=packed)


def sidecar(path: Path) -> tuple[dict[str, Any], Weights]:
    """Configuration and tensors of a sidecar made of a checkpoint's `mtp.*` tensors, in the types they are stored in.

    Raises StartError if there are none, or not the ones that the heads need.
    """
    source = native(path)
    if not source.tensors:
        raise StartError(f"{path} holds no mtp.* tensors: only the original checkpoint has them, conversions drop them")
    net = _built(source, packed=True)
    text = {**text_config(source.config), "mtp_num_hidden_layers": net.depth}
    config = {"model_type": QWEN_SIDECAR, "text_config": text, "block_size": block_size(text)}
    packing = _packing(source.config).get("quantization") if any(".scales" in name for name in source.tensors) else None
    return {**config, **({"quantization": packing} if packing else {})}, dict(tree_flatten(net.parameters()))


def _built(source: Shards, *, packed: bool | None) -> Qwen35Mtp:
    weights = converted(source)
    layers = {int(name.split(".")[1]) for name in weights if name.startswith("layers.")}
    # The tensors say how deep the heads are: configurations are silent about it, or wrong.
    text = {**text_config(source.config), "mtp_num_hidden_layers": 1 + max(layers, default=0)}
    return fill(Qwen35Mtp(text), Checkpoint(str(source.path), _packing(source.config), weights), packed=packed)


def native(path: Path) -> Shards:
    """The `mtp.*` tensors of a directory, none if it has none."""
    return shards.read(path, lambda name: f".{MARK}" in f".{name}")


def _packing(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with its single layers' packing under the names that the network has."""
    settings = config.get("quantization") or config.get("quantization_config")
    if not isinstance(settings, Mapping):
        return config
    own = {name.rpartition(MARK)[2]: value for name, value in settings.items() if f".{MARK}" in f".{name}"}
    return {**config, "quantization": {**settings, **own}}


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a configuration."""
    return config.get("text_config") or config


def block_size(config: Mapping[str, Any]) -> int:
    """Columns of a verify round that the heads are meant for: depth + 2 unless the configuration says otherwise."""
    depth = int(text_config(config).get("mtp_num_hidden_layers") or 1)
    return int(config.get("block_size") or depth + 2)


def converted(source: Shards) -> Weights:
    """The tensors under the network's names.

    The norms of a Hugging Face checkpoint are stored without their 1; MLX's files, and sidecars, have it.
    """
    weights: Weights = {}
    for name, array in source.tensors.items():
        _, mark, behind = f".{name}".rpartition(f".{MARK}")
        own = behind if mark else name
        stored_without = bool(mark) and not source.mlx and array.ndim == 1 and "norm" in own
        weights[own] = array + 1.0 if stored_without else array
    return _switched(weights)


def _switched(weights: Weights) -> Weights:
    """Experts as mlx-lm holds them: one array of all of them for each projection."""
    out: Weights = {}
    single: dict[str, dict[int, mx.array]] = {}
    for name, array in weights.items():
        if found := _EXPERT.fullmatch(name):
            base, number, projection, kind = found.groups()
            single.setdefault(f"{base}.switch_mlp.{projection}.{kind}", {})[int(number)] = array
        elif found := _FUSED.fullmatch(name):
            base, projection, kind = found.groups()
            _put(out, f"{base}.switch_mlp", projection, kind or "weight", array)
        else:
            out[name] = array
    for name, experts in single.items():
        if sorted(experts) != list(range(len(experts))):
            raise StartError(f"the experts of {name} are not numbered without a gap: {sorted(experts)}")
        out[name] = mx.stack([experts[n] for n in range(len(experts))])
    return out


def _put(out: Weights, base: str, projection: str, kind: str, array: mx.array) -> None:
    if projection == "down_proj":
        out[f"{base}.down_proj.{kind}"] = array
        return
    gate, up = mx.split(array, 2, axis=-2)
    out[f"{base}.gate_proj.{kind}"], out[f"{base}.up_proj.{kind}"] = gate, up


def _args(text: Mapping[str, Any]) -> TextModelArgs:
    """Of layers that all see everything. mlx-lm writes into what it is given, so it gets a copy."""
    settings = copy.deepcopy(dict(text)) | {"full_attention_interval": 1}
    if not settings.get("rope_parameters"):
        names = ("rope_theta", "partial_rotary_factor")
        settings["rope_parameters"] = {"type": "default", **{n: settings[n] for n in names if n in settings}}
    return TextModelArgs.from_dict(settings)
