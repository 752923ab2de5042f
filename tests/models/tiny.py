"""Tiny random targets, one for each kind of cache that mlx-lm's models ask for; built in milliseconds.

Weights are scaled up where that makes logits react strongly to every column: with mlx-lm's own
initialisation a wrong column in the cache would hardly show. (Gated delta nets react enough, and
strongly to rounding too.)
"""

import importlib
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_map

VOCAB = 128
WIDTH = 64
WINDOW = 16
"""Of the sliding layers, in columns."""

_ATTENTION: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
}


def build(family: str, config: dict[str, Any], gain: float = 2.0, seed: int = 0) -> nn.Module:
    """mlx-lm's model of that name with random float32 weights; matrices are multiplied by `gain`."""
    mx.random.seed(seed)
    module = importlib.import_module(f"mlx_lm.models.{family}")
    model = module.Model(module.ModelArgs.from_dict({"model_type": family, **config}))

    def scaled(weight: mx.array) -> mx.array:
        return (weight * gain if weight.ndim > 1 else weight).astype(mx.float32)

    model.update(tree_map(scaled, model.parameters()))
    model.eval()
    mx.eval(model.parameters())
    return model


def llama(**changes: Any) -> nn.Module:
    return build("llama", _ATTENTION | {"num_hidden_layers": 4, "rope_theta": 1e4} | changes)


def llama_sliding(**changes: Any) -> nn.Module:
    kinds = ["sliding_attention", "full_attention"] * 2
    return llama(**{"layer_types": kinds, "sliding_window": WINDOW} | changes)


def qwen2(**changes: Any) -> nn.Module:
    return build("qwen2", _ATTENTION | {"num_hidden_layers": 4, "rope_theta": 1e6} | changes)


def qwen3(**changes: Any) -> nn.Module:
    own = {"num_hidden_layers": 6, "head_dim": 16, "rope_theta": 1e6, "tie_word_embeddings": True}
    return build("qwen3", _ATTENTION | own | changes)


def gemma3_text(**changes: Any) -> nn.Module:
    own = {"num_hidden_layers": 6, "head_dim": 16, "sliding_window": WINDOW, "sliding_window_pattern": 3}
    return build("gemma3_text", _ATTENTION | own | changes, gain=1.5)


def gemma4_text(**changes: Any) -> nn.Module:
    """Two of six layers see everything; the full ones have wider heads."""
    own = {
        "num_hidden_layers": 6,
        "head_dim": 16,
        "global_head_dim": 32,
        "vocab_size_per_layer_input": VOCAB,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0,
        "sliding_window": WINDOW,
        "use_double_wide_mlp": False,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
        "final_logit_softcapping": 30.0,
    }
    return build("gemma4_text", _ATTENTION | own | changes, gain=1.0)


def gemma4_shared(**changes: Any) -> nn.Module:
    """The last layers have no keys of their own: they read those of the last layer of their kind."""
    kinds = ["sliding_attention", "full_attention"] * 3
    return gemma4_text(**{"layer_types": kinds, "num_kv_shared_layers": 2} | changes)


def muse_glimmer(**changes: Any) -> nn.Module:
    own = {"num_hidden_layers": 8, "head_dim": 16, "sliding_window": WINDOW, "rope_theta": 5e5}
    caps = {"final_logit_softcapping": 20.0, "output_multiplier": 0.7}
    return build("muse_glimmer", _ATTENTION | own | caps | changes)


def lfm2(**changes: Any) -> nn.Module:
    """Short convolutions with attention at layers 2 and 4."""
    own = {
        "num_hidden_layers": 6,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": WIDTH,
        "block_ff_dim": 96,
        "block_multiple_of": 16,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "rope_theta": 1e6,
        "layer_types": ["conv", "conv", "full_attention", "conv", "full_attention", "conv"],
    }
    return build("lfm2", _ATTENTION | own | changes)


def lfm2_moe(**changes: Any) -> nn.Module:
    own = {
        "num_hidden_layers": 4,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "layer_types": ["conv", "full_attention", "conv", "conv"],
        "moe_intermediate_size": 48,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "use_expert_bias": False,
        "num_dense_layers": 1,
    }
    return build("lfm2_moe", _ATTENTION | own | changes)


_DELTA: dict[str, Any] = {
    "head_dim": 32,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}
_EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "shared_expert_intermediate_size": 48,
    "moe_intermediate_size": 48,
}


_ROPE: dict[str, Any] = {
    "type": "default",
    "mrope_section": [2, 1, 1],
    "rope_theta": 1e6,
    "partial_rotary_factor": 0.25,
}


def qwen3_5(**changes: Any) -> nn.Module:
    """Gated delta nets with attention at every fourth layer."""
    own = {"model_type": "qwen3_5_text", "num_hidden_layers": 8, "tie_word_embeddings": True, "rope_parameters": _ROPE}
    return build("qwen3_5", {"text_config": _ATTENTION | _DELTA | own | changes}, gain=1.0)


def qwen3_next(**changes: Any) -> nn.Module:
    rope = {"rope_theta": 1e6, "partial_rotary_factor": 0.25}
    return build(
        "qwen3_next", _ATTENTION | _DELTA | _EXPERTS | rope | {"num_hidden_layers": 4, "mlp_only_layers": []} | changes
    )


def qwen3_5_moe(**changes: Any) -> nn.Module:
    own = {"model_type": "qwen3_5_moe_text", "num_hidden_layers": 4, "rope_parameters": _ROPE}
    return build("qwen3_5_moe", {"text_config": _ATTENTION | _DELTA | _EXPERTS | own | changes})


def mamba2(**changes: Any) -> nn.Module:
    own = {
        "num_hidden_layers": 4,
        "num_heads": 4,
        "head_dim": 16,
        "state_size": 16,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": True,
        "time_step_limit": (0.0, 100.0),
        "time_step_rank": "auto",
    }
    return build("mamba2", _ATTENTION | own | changes)


_SSM: dict[str, Any] = {"attention_bias": False, "mamba_proj_bias": False}


def nemotron_h(**changes: Any) -> nn.Module:
    """Fewer caches than layers. No target: its recurrent layers do not honour row lengths."""
    own = {
        "hybrid_override_pattern": ["M", "-", "*", "M", "-"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "n_groups": 1,
        "mlp_bias": False,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
    }
    return build("nemotron_h", _ATTENTION | _SSM | own | changes)


def granitemoehybrid(**changes: Any) -> nn.Module:
    own = {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "attention", "mamba", "mamba"],
        "embedding_multiplier": 1.0,
        "attention_multiplier": 0.25,
        "logits_scaling": 1.0,
        "residual_multiplier": 1.0,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_conv_bias": True,
    }
    return build("granitemoehybrid", _ATTENTION | _SSM | own | changes)


def gpt_bigcode(**changes: Any) -> nn.Module:
    """No target: it wants one position for all rows."""
    own = {
        "n_embd": WIDTH,
        "n_layer": 2,
        "n_inner": 96,
        "n_head": 4,
        "n_positions": 64,
        "layer_norm_epsilon": 1e-5,
        "vocab_size": VOCAB,
    }
    return build("gpt_bigcode", own | changes)


TARGETS: dict[str, Callable[[], nn.Module]] = {
    make.__name__: make
    for make in (
        llama,
        llama_sliding,
        qwen2,
        qwen3,
        gemma3_text,
        gemma4_text,
        gemma4_shared,
        muse_glimmer,
        lfm2,
        qwen3_5,
        lfm2_moe,
        qwen3_next,
        qwen3_5_moe,
        mamba2,
        granitemoehybrid,
    )
}
