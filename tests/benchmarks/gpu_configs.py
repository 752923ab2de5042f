"""Configurations of published models, as far as their shapes go, and small ones of the same families.

From config.json of Qwen/Qwen3-8B, Qwen/Qwen3.5-4B, Qwen/Qwen3.5-27B, google/gemma-4-12B-it and its assistant; those
of the DFlash drafters from spec/drafters.md section 9. Only shapes matter here: no checkpoint is read.
"""

from typing import Any

Settings = dict[str, Any]

QWEN3_8B: Settings = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
_ROPE: Settings = {"type": "default", "mrope_section": [11, 11, 10], "rope_theta": 1e7, "partial_rotary_factor": 0.25}
QWEN35_4B: Settings = {
    "model_type": "qwen3_5_text",
    "hidden_size": 2560,
    "intermediate_size": 9216,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 248320,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 262144,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "tie_word_embeddings": True,
    "rope_parameters": _ROPE,
    "mtp_num_hidden_layers": 1,
}
QWEN35_27B: Settings = QWEN35_4B | {
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "linear_num_value_heads": 48,
    "tie_word_embeddings": False,
}
_GEMMA_ROPE: Settings = {
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
}
GEMMA4_12B: Settings = {
    "model_type": "gemma4_text",
    "hidden_size": 3840,
    "intermediate_size": 15360,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_global_key_value_heads": 1,
    "head_dim": 256,
    "global_head_dim": 512,
    "attention_k_eq_v": True,
    "vocab_size": 262144,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "sliding_window": 1024,
    "use_double_wide_mlp": False,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 262144,
    "final_logit_softcapping": 30.0,
    "tie_word_embeddings": True,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 8,
    "rope_parameters": _GEMMA_ROPE,
}
GEMMA4_ASSISTANT: Settings = GEMMA4_12B | {
    "hidden_size": 1024,
    "intermediate_size": 8192,
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 4,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
}
DFLASH_8B: Settings = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "rope_theta": 1e6,
    "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33], "num_target_layers": 36},
}
DFLASH_4B: Settings = {
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 248320,
    "rope_theta": 1e7,
    "block_size": 16,
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 8, 15, 22, 29], "num_target_layers": 32},
}
SMALL: Settings = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
}
SMALL_DELTA: Settings = SMALL | {
    "num_hidden_layers": 4,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "rope_parameters": _ROPE | {"mrope_section": [2, 1, 1]},
}
SMALL_DRAFT: Settings = SMALL | {
    "num_hidden_layers": 2,
    "block_size": 16,
    "dflash_config": {"mask_token_id": 511, "target_layer_ids": [0, 3], "num_target_layers": 4},
}
SMALL_GEMMA: Settings = SMALL | {
    "num_hidden_layers": 4,
    "global_head_dim": 64,
    "num_global_key_value_heads": 1,
    "vocab_size_per_layer_input": 512,
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
