"""Tiny random models, as mlx-lm builds them and as GGUF files written with the `gguf` package.

Tensor names come from the `gguf` package's own map and the row order from its converter's rule, so
a file made here owes nothing to the code under test.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
from gguf.constants import GGMLQuantizationType as Kind
from mlx.utils import tree_flatten, tree_map

from stoker.models.load import Loaded

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3", "lfm2")
VOCAB = 96
BEYOND = ["{", "|", "}", "~", "Ċ", "Ã", "©", "¼"]
WIDTH = 64
COMMON: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**COMMON, "model_type": "llama", "head_dim": 16},
    "qwen2": {**COMMON, "model_type": "qwen2", "tie_word_embeddings": False},
    "qwen3": {**COMMON, "model_type": "qwen3", "head_dim": 32},
    "gemma3": {
        **COMMON,
        "model_type": "gemma3_text",
        "head_dim": 32,
        "query_pre_attn_scalar": 32,
        "sliding_window": 4,
        "sliding_window_pattern": 2,
        "rope_local_base_freq": 10000.0,
    },
    "lfm2": {
        **COMMON,
        "model_type": "lfm2",
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": WIDTH,
        "block_ff_dim": 96,
        "block_multiple_of": 1,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention"],
    },
}


@dataclass
class Sample:
    architecture: str
    config: dict[str, Any]
    model: Any
    """The reference: mlx-lm's model in Hugging Face's layout."""
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    """Its weights by Hugging Face's names."""


def sample(architecture: str, **changes: object) -> Sample:
    config = {**CONFIGS[architecture], **changes}
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    if config["tie_word_embeddings"] and architecture == "gemma3":
        model.sanitize({})
    mx.random.seed(7)
    # Wide enough that a wrong row order or a lost norm changes the logits plainly.
    model.update(tree_map(lambda array: mx.random.normal(array.shape) * 0.3 + 0.1, model.parameters()))
    weights = {name: np.array(array) for name, array in tree_flatten(model.parameters())}
    return Sample(architecture, config, model, weights)


def logits(model: Any, tokens: tuple[int, ...] = (1, 5, 9, 33, 60, 2, 7, 90)) -> np.ndarray:
    return np.array(model(mx.array([tokens])).astype(mx.float32))


def body(loaded: Loaded) -> Any:
    """The part of a loaded model that has embeddings, layers and the last norm."""
    return loaded.model.model


def write(
    path: Path,
    made: Sample,
    kinds: dict[str, Kind] | None = None,
    metadata: dict[str, Any] | None = None,
    vocabulary: Callable[[gguf.GGUFWriter], None] | None = None,
) -> Path:
    """Write the sample as GGUF; `kinds` gives tensors, by a part of their GGUF name, another format than F32."""
    writer = gguf.GGUFWriter(path, made.architecture)
    _write_settings(writer, made)
    if vocabulary is None:
        write_vocabulary(writer, made.config["vocab_size"])
    else:
        vocabulary(writer)
    for key, value in (metadata or {}).items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    for name, weight in made.weights.items():
        file_name, array = _in_file(made, name, weight)
        kind = _kind(file_name, array, kinds or {})
        writer.add_tensor(file_name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    if (factors := rope_factors(made)) is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    finish(writer)
    return path


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _kind(name: str, array: np.ndarray, kinds: dict[str, Kind]) -> Kind:
    if array.ndim == 2 and "shortconv.conv." not in name:
        for part, kind in kinds.items():
            if part in name:
                return kind
    return Kind.F32


def _write_settings(writer: gguf.GGUFWriter, made: Sample) -> None:
    config = made.config
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    if made.architecture == "lfm2":
        writer.add_head_count_kv([2 if kind == "full_attention" else 0 for kind in config["layer_types"]])
        writer.add_shortconv_l_cache(config["conv_L_cache"])
    else:
        writer.add_head_count_kv(config["num_key_value_heads"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if made.architecture == "gemma3":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])


def write_vocabulary(writer: gguf.GGUFWriter, size: int = VOCAB) -> None:
    """Byte-level BPE of the printable ASCII characters with two merges and two control tokens.

    A larger vocabulary also has the last of them, the new line, and the bytes of é and ü.
    """
    tokens = [chr(code) for code in range(0x21, 0x7B)] + BEYOND[: size - VOCAB]
    tokens += ["Ġ", "Ġa", "Ġab", "<|im_start|>", "<|im_end|>", "<pad>"]
    assert len(tokens) == size
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (size - 3) + [3, 3, 3])
    writer.add_token_merges(["Ġ a", "Ġa b"])
    writer.add_bos_token_id(size - 3)
    writer.add_eos_token_id(size - 2)
    writer.add_chat_template("{{ messages[0]['content'] }}")


def _in_file(made: Sample, name: str, weight: np.ndarray) -> tuple[str, np.ndarray]:
    architecture = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == made.architecture)
    names = gguf.get_tensor_name_map(architecture, made.config["num_hidden_layers"])
    file_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
    assert file_name is not None, name
    if made.architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
        heads = made.config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"]
        weight = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)
    if made.architecture == "gemma3" and name.endswith("norm.weight"):
        weight = weight + 1
    if name.endswith("conv.conv.weight"):
        weight = weight[..., 0]
    return file_name, np.ascontiguousarray(weight, np.float32)


def rope_factors(made: Sample) -> np.ndarray | None:
    """The converter's frequency factors for llama3 scaling."""
    scaling = made.config.get("rope_scaling")
    if not scaling or scaling["rope_type"] != "llama3":
        return None
    dims, base = made.config["head_dim"], made.config["rope_theta"]
    wavelengths = 2 * np.pi * base ** (np.arange(0, dims, 2) / dims)
    context, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    smooth = np.clip((context / wavelengths - 1.0) / (4.0 - 1.0), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def random_blocks(kind: Kind, rows: int, columns: int) -> np.ndarray:
    """A weight in a K-quant format, which the package reads and cannot write: random bits, modest scales."""
    block, width = gguf.GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(3)
    blocks = random.integers(0, 256, (rows, columns // block, width), dtype=np.uint8)
    scale = np.frombuffer(np.float16(0.002).tobytes(), np.uint8)
    if kind is Kind.Q6_K:
        blocks[..., -2:] = scale
    else:
        blocks[..., 0:2] = blocks[..., 2:4] = scale
    return blocks.reshape(rows, -1)


def write_with(
    path: Path,
    made: Sample,
    part: str,
    blocks: np.ndarray,
    kind: Kind,
    kinds: dict[str, Kind] | None = None,
    *,
    double: bool = False,
    extra: str | None = None,
) -> None:
    """Like `write`, with one tensor's stored blocks, an odd metadata value or an odd tensor put in."""
    plain = write(path.with_suffix(".plain"), made, kinds)
    reader = gguf.GGUFReader(plain)
    writer = gguf.GGUFWriter(path, made.architecture)
    for key, entry in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            sub = entry.types[-1] if entry.types[0] is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, entry.contents(), entry.types[0], sub)
    if double:
        writer.add_float64("stoker.test", 0.5)
    for tensor in reader.tensors:
        replaced = part in tensor.name
        writer.add_tensor(
            tensor.name, blocks if replaced else tensor.data, raw_dtype=kind if replaced else tensor.tensor_type
        )
    if extra:
        writer.add_tensor(extra, np.zeros((4, 32), np.float32))
    finish(writer)
