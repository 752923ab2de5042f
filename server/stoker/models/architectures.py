"""What a GGUF architecture is called in mlx-lm: tensor names and configuration. Knows no weights.

Keys and tensor names are those of ggml's docs/gguf.md and the `gguf` package's constants; the
configurations are the fields of mlx-lm's `ModelArgs`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.core.errors import StartError
from stoker.models.gguf_file import GgufFile
from stoker.models.rope_scaling import rope_scaling

Config = dict[str, object]

LLAMA_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
GEMMA3_BLOCK = {
    **LLAMA_BLOCK,
    **HEAD_NORMS,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
LFM2_BLOCK = {
    "attn_norm": "operator_norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LFM2_OUTER = {
    "token_embd": "model.embed_tokens",
    "token_embd_norm": "model.embedding_norm",
    "output_norm": "model.embedding_norm",
}
CONSUMED = frozenset({"rope_freqs.weight"})
"""Tensors that become configuration instead of weights."""


@dataclass(frozen=True, slots=True)
class Header:
    """Typed access to one file's metadata; `arch.` keys are named without their prefix."""

    file: GgufFile
    arch: str

    def get(self, key: str) -> object:
        return self.file.metadata.get(f"{self.arch}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.get(key)
        if value is None:
            value = default
        if isinstance(value, int):
            return value
        raise StartError(f"{self.file.path}: metadata {self.arch}.{key} is missing or no integer")

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key)
        if value is None:
            value = default
        if isinstance(value, int | float):
            return float(value)
        raise StartError(f"{self.file.path}: metadata {self.arch}.{key} is missing or no number")

    def has(self, tensor: str) -> bool:
        """True if any layer, or the file itself, has this tensor."""
        return any(entry.name == tensor or entry.name.endswith(f".{tensor}") for entry in self.file.tensors)

    @property
    def vocab(self) -> int:
        for entry in self.file.tensors:
            if entry.name == "token_embd.weight":
                return entry.shape[0]
        raise StartError(f"{self.file.path} holds no token_embd.weight: it is no language model")

    @property
    def head_dim(self) -> int:
        return self.integer(
            "attention.key_length", self.integer("embedding_length") // self.integer("attention.head_count")
        )


@dataclass(frozen=True, slots=True)
class Architecture:
    name: str
    block: Mapping[str, str]
    outer: Mapping[str, str]
    configure: Callable[[Header], Config]
    norm_offset: float = 0.0
    """What the file's norm weights carry beyond mlx-lm's."""

    def rename(self, tensor: str) -> str | None:
        """mlx-lm's name of a tensor, None for one that this architecture does not have."""
        stem, _, kind = tensor.rpartition(".")
        if not stem.startswith("blk."):
            return f"{self.outer[stem]}.{kind}" if stem in self.outer else None
        _, layer, inner = stem.split(".", 2)
        return f"model.layers.{layer}.{self.block[inner]}.{kind}" if inner in self.block else None


def layer_of(tensor: str) -> int | None:
    """The layer that a GGUF tensor belongs to, None for those outside."""
    return int(tensor.split(".", 2)[1]) if tensor.startswith("blk.") else None


def find(file: GgufFile) -> Architecture:
    """Raises StartError for an architecture that is not in the table."""
    name = file.metadata.get("general.architecture")
    found = ARCHITECTURES.get(str(name))
    if found is None:
        known = ", ".join(sorted(ARCHITECTURES))
        raise StartError(f"{file.path}: GGUF architecture {name!r} is not supported; supported are {known}")
    return found


def _common(header: Header, family: str) -> Config:
    config: Config = {
        "model_type": family,
        "hidden_size": header.integer("embedding_length"),
        "num_hidden_layers": header.integer("block_count"),
        "intermediate_size": header.integer("feed_forward_length"),
        "num_attention_heads": header.integer("attention.head_count"),
        "rms_norm_eps": header.number("attention.layer_norm_rms_epsilon"),
        "vocab_size": header.vocab,
        "max_position_embeddings": header.integer("context_length"),
        "tie_word_embeddings": not header.has("output.weight"),
    }
    for ours in ("bos", "eos", "padding"):
        value = header.file.metadata.get(f"tokenizer.ggml.{ours}_token_id")
        if isinstance(value, int):
            config[f"{'pad' if ours == 'padding' else ours}_token_id"] = value
    return config


def _attention(header: Header, family: str) -> Config:
    """For the families whose layers are all alike: plus key-value heads and rotary positions."""
    head_dim = header.head_dim
    if header.integer("rope.dimension_count", head_dim) != head_dim:
        raise StartError(f"{header.file.path}: rotary positions on a part of each head are not supported")
    config = _common(header, family)
    config["num_key_value_heads"] = header.integer("attention.head_count_kv", header.integer("attention.head_count"))
    config["rope_theta"] = header.number("rope.freq_base", 10000.0)
    scaling = rope_scaling(header.file, header.arch, head_dim, header.number("rope.freq_base", 10000.0))
    if scaling is not None:
        config["rope_scaling"] = scaling
    return config


def _llama(header: Header) -> Config:
    if header.integer("expert_count", 0) > 0:
        raise StartError(f"{header.file.path}: llama files with experts (Mixtral) are not supported")
    return {
        **_attention(header, "llama"),
        "head_dim": header.head_dim,
        # llama.cpp's converter reorders the rows of q and k so that a rotated pair stands side by side.
        "rope_traditional": True,
        "attention_bias": header.has("attn_q.bias"),
        "mlp_bias": header.has("ffn_up.bias"),
    }


def _qwen2(header: Header) -> Config:
    return _attention(header, "qwen2")


def _qwen3(header: Header) -> Config:
    return {**_attention(header, "qwen3"), "head_dim": header.head_dim}


GEMMA3_27B_LAYERS = 62


def _gemma3(header: Header) -> Config:
    config = _attention(header, "gemma3_text")
    # The file has no key for the attention scale; llama.cpp knows the one model that differs by its depth.
    is_27b = header.integer("block_count") == GEMMA3_27B_LAYERS
    scalar = header.integer("embedding_length") // header.integer("attention.head_count")
    return {
        **config,
        "head_dim": header.head_dim,
        "query_pre_attn_scalar": scalar if is_27b else header.head_dim,
        "rope_local_base_freq": header.number("rope.freq_base_swa", 10000.0),
        "sliding_window": header.integer("attention.sliding_window"),
        "sliding_window_pattern": header.integer("attention.sliding_window_pattern", 6),
    }


def _lfm2(header: Header) -> Config:
    heads = header.get("attention.head_count_kv")
    if not isinstance(heads, list) or not any(heads):
        raise StartError(f"{header.file.path}: metadata lfm2.attention.head_count_kv must list heads layer by layer")
    per_layer: list[int] = [int(count) for count in heads]
    config = _common(header, "lfm2")
    width = config["intermediate_size"]
    return {
        **config,
        "num_key_value_heads": max(per_layer),
        "norm_eps": config["rms_norm_eps"],
        "rope_theta": header.number("rope.freq_base", 1000000.0),
        "conv_bias": header.has("shortconv.conv.bias"),
        "conv_L_cache": header.integer("shortconv.l_cache"),
        "block_dim": config["hidden_size"],
        "block_ff_dim": width,
        # The file's width is final: mlx-lm must not derive it again.
        "block_multiple_of": 1,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["full_attention" if count else "conv" for count in per_layer],
    }


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture("llama", LLAMA_BLOCK, OUTER, _llama),
    "qwen2": Architecture("qwen2", LLAMA_BLOCK, OUTER, _qwen2),
    "qwen3": Architecture("qwen3", {**LLAMA_BLOCK, **HEAD_NORMS}, OUTER, _qwen3),
    "gemma3": Architecture("gemma3", GEMMA3_BLOCK, OUTER, _gemma3, norm_offset=1.0),
    "lfm2": Architecture("lfm2", LFM2_BLOCK, LFM2_OUTER, _lfm2),
}
