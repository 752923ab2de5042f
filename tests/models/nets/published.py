"""Tiny drafter checkpoints in the published formats, and the targets they go with.

All numbers come from numpy's generators, whose streams are fixed for good: what is recorded with one
version of MLX holds for the next. Used by the tests and by the scripts that record the references.
"""

import json
from pathlib import Path
from typing import Any
from typing import cast as cast_to

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten

from models import tiny

VOCAB, WIDTH = tiny.VOCAB, tiny.WIDTH
Weights = dict[str, mx.array]


class Numbers:
    """Normally distributed float32 arrays from one seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def matrix(self, *shape: int, size: float = 0.15) -> mx.array:
        return mx.array(self._rng.standard_normal(shape).astype(np.float32) * size)

    def norm(self, width: int) -> mx.array:
        return 1 + self.matrix(width)


def renewed(model: nn.Module, seed: int, size: float = 0.15) -> nn.Module:
    """The same model with weights of ours: matrices as large as `size`, norms near 1."""
    numbers = Numbers(seed)
    weights = [
        (name, numbers.matrix(*array.shape, size=size) if array.ndim > 1 else array)
        for name, array in sorted(cast_to("list[tuple[str, mx.array]]", tree_flatten(model.parameters())))
    ]
    model.load_weights(weights)
    mx.eval(model.parameters())
    return model


def save(place: Path, config: dict[str, Any], weights: Weights, *, mlx: bool = False) -> Path:
    """Writes a checkpoint of one file."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(place / "model.safetensors"), weights, {"format": "mlx"} if mlx else {"format": "pt"})
    return place


def cast(weights: Weights, dtype: mx.Dtype) -> Weights:
    return {name: array.astype(dtype) if array.dtype == mx.float32 else array for name, array in weights.items()}


def packed(weights: Weights, bits: int = 4, group: int = 32) -> tuple[Weights, dict[str, Any]]:
    """The matrices quantised as MLX does it, and what the configuration says of it. Gates stay as they are."""
    out: Weights = {}
    for name, array in weights.items():
        base = name.removesuffix(".weight")
        if array.ndim < 2 or array.shape[-1] % group or not name.endswith(".weight") or base.endswith("gate"):
            out[name] = array
            continue
        out[name], out[f"{base}.scales"], out[f"{base}.biases"] = mx.quantize(array, group, bits)
    return out, {"quantization": {"group_size": group, "bits": bits, "mode": "affine"}}


# Qwen3.5

_ROPE: dict[str, Any] = {
    "type": "default",
    "mrope_section": [2, 1, 1],
    "rope_theta": 1e6,
    "partial_rotary_factor": 0.25,
}
QWEN_TEXT: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": WIDTH,
    "intermediate_size": 96,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCAB,
    "max_position_embeddings": 4096,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "tie_word_embeddings": True,
    "rope_parameters": _ROPE,
    "mtp_num_hidden_layers": 1,
}
EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "shared_expert_intermediate_size": 48,
    "moe_intermediate_size": 48,
    "norm_topk_prob": True,
}
QWEN_MOE_TEXT = QWEN_TEXT | EXPERTS | {"model_type": "qwen3_5_moe_text"}


def qwen_target(seed: int = 21) -> nn.Module:
    """A target whose hidden states, embedding and head the heads are used with."""
    return renewed(tiny.qwen3_5(), seed)


def qwen_heads(*, moe: bool = False, fused: bool = True, seed: int = 5) -> Weights:
    """The `mtp.*` tensors as Hugging Face has them: norms without their 1."""
    numbers = Numbers(seed)
    w: Weights = {}
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        w[f"mtp.{name}.weight"] = numbers.matrix(WIDTH)
    w["mtp.fc.weight"] = numbers.matrix(WIDTH, 2 * WIDTH)
    layer = "mtp.layers.0"
    for name in ("input_layernorm", "post_attention_layernorm"):
        w[f"{layer}.{name}.weight"] = numbers.matrix(WIDTH)
    heads, dim = QWEN_TEXT["num_attention_heads"], QWEN_TEXT["head_dim"]
    kv = QWEN_TEXT["num_key_value_heads"]
    w[f"{layer}.self_attn.q_proj.weight"] = numbers.matrix(2 * heads * dim, WIDTH)
    w[f"{layer}.self_attn.k_proj.weight"] = numbers.matrix(kv * dim, WIDTH)
    w[f"{layer}.self_attn.v_proj.weight"] = numbers.matrix(kv * dim, WIDTH)
    w[f"{layer}.self_attn.o_proj.weight"] = numbers.matrix(WIDTH, heads * dim)
    w[f"{layer}.self_attn.q_norm.weight"] = numbers.matrix(dim)
    w[f"{layer}.self_attn.k_norm.weight"] = numbers.matrix(dim)
    if moe:
        _experts(w, f"{layer}.mlp", numbers, fused)
        return w
    for name, shape in (("gate_proj", (96, WIDTH)), ("up_proj", (96, WIDTH)), ("down_proj", (WIDTH, 96))):
        w[f"{layer}.mlp.{name}.weight"] = numbers.matrix(*shape)
    return w


def _experts(w: Weights, base: str, numbers: Numbers, fused: bool) -> None:
    count, inner = EXPERTS["num_experts"], EXPERTS["moe_intermediate_size"]
    w[f"{base}.gate.weight"] = numbers.matrix(count, WIDTH)
    w[f"{base}.shared_expert_gate.weight"] = numbers.matrix(1, WIDTH)
    for name, shape in (("gate_proj", (inner, WIDTH)), ("up_proj", (inner, WIDTH)), ("down_proj", (WIDTH, inner))):
        w[f"{base}.shared_expert.{name}.weight"] = numbers.matrix(*shape)
    gate, up = numbers.matrix(count, inner, WIDTH), numbers.matrix(count, inner, WIDTH)
    down = numbers.matrix(count, WIDTH, inner)
    if fused:
        w[f"{base}.experts.gate_up_proj"] = mx.concatenate([gate, up], axis=-2)
        w[f"{base}.experts.down_proj"] = down
        return
    for n in range(count):
        for name, array in (("gate_proj", gate), ("up_proj", up), ("down_proj", down)):
            w[f"{base}.experts.{n}.{name}.weight"] = array[n]


def qwen_native(place: Path, *, moe: bool = False, fused: bool = True, dtype: mx.Dtype = mx.float32) -> Path:
    """Heads inside of a whole checkpoint, of which nothing but an embedding is there."""
    weights = qwen_heads(moe=moe, fused=fused)
    weights["model.language_model.embed_tokens.weight"] = Numbers(6).matrix(VOCAB, WIDTH)
    text = QWEN_MOE_TEXT if moe else QWEN_TEXT
    kind = "qwen3_5_moe" if moe else "qwen3_5"
    return save(place, {"model_type": kind, "text_config": text}, cast(weights, dtype))


def qwen_sidecar(place: Path, *, dtype: mx.Dtype = mx.float32, bits: int = 0) -> Path:
    """Heads by themselves, norms with their 1, as mlx-vlm splits them off."""
    weights = {
        name.removeprefix("mtp."): array + 1.0 if array.ndim == 1 else array for name, array in qwen_heads().items()
    }
    config: dict[str, Any] = {"model_type": "qwen3_5_mtp", "text_config": QWEN_TEXT, "block_size": 3}
    weights = cast(weights, dtype)
    if bits:
        weights, more = packed(weights, bits)
        config |= more
    return save(place, config, weights, mlx=True)


# Gemma 4

_GEMMA_ROPE: dict[str, Any] = {
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
}
GEMMA_NARROW = 32
GEMMA_TEXT: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": GEMMA_NARROW,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "vocab_size": VOCAB,
    "vocab_size_per_layer_input": VOCAB,
    "rms_norm_eps": 1e-6,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 2,
    "sliding_window": tiny.WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
    "use_double_wide_mlp": False,
    "attention_k_eq_v": False,
    "enable_moe_block": False,
    "tie_word_embeddings": True,
    "rope_parameters": _GEMMA_ROPE,
}


def gemma_target(seed: int = 22) -> nn.Module:
    return renewed(tiny.gemma4_text(), seed)


def calm_gemma_target() -> nn.Module:
    """One that is sure of nothing."""
    model: Any = gemma_target()
    model.model.norm.weight = model.model.norm.weight * 0.4
    return model


def gemma_assistant(
    place: Path,
    *,
    ordered: bool = False,
    unified: bool = False,
    dtype: mx.Dtype = mx.float32,
    bits: int = 0,
    size: float = 1.0,
) -> Path:
    """`size`: of its logits, about."""
    numbers = Numbers(4)
    h = GEMMA_NARROW
    w: Weights = {
        "pre_projection.weight": numbers.matrix(h, 2 * WIDTH),
        "post_projection.weight": numbers.matrix(WIDTH, h),
        "model.embed_tokens.weight": numbers.matrix(VOCAB, h, size=size),
        "model.norm.weight": numbers.norm(h),
    }
    for n, kind in enumerate(GEMMA_TEXT["layer_types"]):
        layer, dim = f"model.layers.{n}", 32 if kind == "full_attention" else 16
        for name in (
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ):
            w[f"{layer}.{name}.weight"] = numbers.norm(h)
        w[f"{layer}.self_attn.q_proj.weight"] = numbers.matrix(4 * dim, h)
        w[f"{layer}.self_attn.o_proj.weight"] = numbers.matrix(h, 4 * dim)
        w[f"{layer}.self_attn.q_norm.weight"] = numbers.norm(dim)
        for name, shape in (("gate_proj", (48, h)), ("up_proj", (48, h)), ("down_proj", (h, 48))):
            w[f"{layer}.mlp.{name}.weight"] = numbers.matrix(*shape)
        w[f"{layer}.layer_scalar"] = mx.array([0.9])
    if ordered:
        w["masked_embedding.centroids.weight"] = numbers.matrix(16, h)
    w = cast(w, dtype)
    config: dict[str, Any] = {
        "architectures": ["Gemma4AssistantForCausalLM"],
        "model_type": "gemma4_unified_assistant" if unified else "gemma4_assistant",
        "backbone_hidden_size": WIDTH,
        "use_ordered_embeddings": ordered,
        "num_centroids": 16,
        "centroid_intermediate_top_k": 4,
        "tie_word_embeddings": True,
        "block_size": 4,
        "text_config": GEMMA_TEXT,
    }
    if bits:
        w, more = packed(w, bits)
        config |= more
    if ordered:
        order = np.random.default_rng(9).permutation(VOCAB).astype(np.int64)
        w["masked_embedding.token_ordering"] = mx.array(order)
    return save(place, config, w, mlx=bool(bits))


# Muse Glimmer

GLIMMER_TAPS = (1, 3, 5)
GLIMMER_BLOCK = 8


def glimmer_target(seed: int = 23) -> nn.Module:
    return renewed(tiny.muse_glimmer(), seed)


def block_layer(w: Weights, layer: str, numbers: Numbers, inner: int) -> None:
    """One decoder layer of a block drafter."""
    w[f"{layer}.input_layernorm.weight"] = numbers.norm(WIDTH)
    w[f"{layer}.post_attention_layernorm.weight"] = numbers.norm(WIDTH)
    for name, shape in (("q", (64, WIDTH)), ("k", (32, WIDTH)), ("v", (32, WIDTH)), ("o", (WIDTH, 64))):
        w[f"{layer}.self_attn.{name}_proj.weight"] = numbers.matrix(*shape)
    w[f"{layer}.self_attn.q_norm.weight"] = numbers.norm(16)
    w[f"{layer}.self_attn.k_norm.weight"] = numbers.norm(16)
    for name, shape in (("gate", (inner, WIDTH)), ("up", (inner, WIDTH)), ("down", (WIDTH, inner))):
        w[f"{layer}.mlp.{name}_proj.weight"] = numbers.matrix(*shape)


def glimmer_assistant(
    place: Path, *, dtype: mx.Dtype = mx.float32, bits: int = 0, nested: bool = False, **changes: Any
) -> Path:
    numbers, layers = Numbers(3), len(GLIMMER_TAPS)
    w: Weights = {
        "encoder.fc.weight": numbers.matrix(WIDTH, layers * WIDTH),
        "encoder.output_norm_enc.weight": numbers.norm(WIDTH),
        "norm.weight": numbers.norm(WIDTH),
    }
    for n in range(layers):
        block_layer(w, f"layers.{n}", numbers, 96)
    w = cast(w, dtype)
    config: dict[str, Any] = {
        "architectures": ["MuseGlimmerAssistantModel"],
        "model_type": "muse_glimmer_assistant",
        "hidden_size": WIDTH,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "layer_types": ["sliding_attention"] * layers,
        "sliding_window": tiny.WINDOW,
        "block_size": GLIMMER_BLOCK,
        "mask_token_id": VOCAB - 1,
        "target_layer_ids": list(GLIMMER_TAPS),
        "num_target_layers": 8,
        "vocab_size": VOCAB,
        "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"},
    }
    if nested:
        inner = ("block_size", "mask_token_id", "target_layer_ids")
        config["dflash_config"] = {key: config.pop(key) for key in inner}
        config = {key: value for key, value in config.items() if key not in ("vocab_size", "num_target_layers")}
    config |= changes
    if bits:
        w, more = packed(w, bits)
        config |= more
    return save(place, config, w, mlx=bool(bits))
