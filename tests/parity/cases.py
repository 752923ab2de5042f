"""What both sides of the comparison with mlx-vlm are given: tiny checkpoints in the published layouts, and features.

All numbers come from NumPy's generator by name, so that recordings stay valid; `record.py` runs the
reference on them and `test_parity.py` our nets.
"""

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

VOCAB, WIDTH, DEPTH, INNER = 128, 64, 8, 96
HEADS, KV_HEADS, DIM = 4, 2, 16
MASK = VOCAB - 1
TAPS = (1, 3, 5)
ANCHOR = 5
RECORDINGS = Path(__file__).parent / "recordings"
DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16}


@dataclass(frozen=True)
class Case:
    """Rounds of several rows; row r adds `fresh[r][n]` context columns in its round n and then drafts."""

    name: str
    kind: str
    fresh: tuple[tuple[int, ...], ...]
    proposals: int = 7
    dtype: str = "float32"
    bits: int = 0
    """Of packed weights; 0: not packed."""
    window: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    nested: dict[str, Any] = field(default_factory=dict)


RAGGED = ((11, 3, 1, 8, 2), (4, 1, 1, 5, 7), (30, 2, 6, 1, 3))
LONG = ((10, 5, 8, 3, 6), (40, 2, 4, 8, 2), (7, 2, 2, 3, 2))
"""Row 0 crosses a window of 16, row 1 begins behind it, row 2 stays inside. Never one column alone past the window:
the reference then addresses wrong keys (specification of the drafters, section 11)."""
DSPARK: dict[str, Any] = {"markov_rank": 32, "markov_head_type": "vanilla", "enable_confidence_head": True}

CASES = (
    Case("dflash", "dflash", RAGGED),
    Case("dflash-causal", "dflash", RAGGED, nested={"causal": True}),
    Case("dflash-sliding", "dflash", LONG, window=16, nested={"causal": True}),
    Case("dflash-softcap", "dflash", RAGGED, changes={"final_logit_softcapping": 5.0}),
    Case("dflash-linear", "dflash", RAGGED, changes={"rope_scaling": {"type": "linear", "factor": 4.0}}),
    Case("dflash-bfloat16", "dflash", RAGGED, dtype="bfloat16"),
    Case("dflash-4bit", "dflash", RAGGED, bits=4),
    Case("dflash-8bit-bfloat16", "dflash", RAGGED, dtype="bfloat16", bits=8),
    Case("dspark", "dspark", RAGGED, 5, changes=DSPARK | {"rope_is_neox_style": False}),
    Case("dspark-halves", "dspark", RAGGED, 5, changes=DSPARK),
    Case("dspark-dropped-anchor", "dspark", RAGGED, 5, changes=DSPARK, nested={"sample_from_anchor": False}),
    Case("dspark-sliding", "dspark", LONG, 5, window=16, changes=DSPARK, nested={"causal": True}),
    Case("dspark-bfloat16", "dspark", RAGGED, 5, dtype="bfloat16", changes=DSPARK),
    Case("dspark-4bit", "dspark", RAGGED, 5, bits=4, changes=DSPARK),
)


def config(case: Case) -> dict[str, Any]:
    kind = "sliding_attention" if case.window else "full_attention"
    made: dict[str, Any] = {
        "architectures": ["DFlashDraftModel" if case.kind == "dflash" else "Lfm2DSparkDraftModel"],
        "model_type": "qwen3",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": DIM,
        "rms_norm_eps": 1e-6,
        "vocab_size": VOCAB,
        "max_position_embeddings": 4096,
        "rope_theta": 1e6,
        "block_size": case.proposals + (case.kind == "dflash"),
        "layer_types": [kind] * 2,
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": list(TAPS), "num_target_layers": DEPTH}
        | case.nested,
    }
    if case.window:
        made["sliding_window"] = case.window
    if case.bits:
        made["quantization"] = {"group_size": 32, "bits": case.bits}
    return made | case.changes


def weights(case: Case) -> dict[str, mx.array]:
    """Norms around 1, matrices that make every input count."""
    shapes: dict[str, tuple[int, ...]] = {"fc": (WIDTH, len(TAPS) * WIDTH), "hidden_norm": (WIDTH,), "norm": (WIDTH,)}
    for layer in range(2):
        for name, shape in _layer().items():
            shapes[f"layers.{layer}.{name}"] = shape
    if case.kind == "dspark":
        rank = case.changes["markov_rank"]
        shapes |= {"markov_head.markov_w1": (VOCAB, rank), "markov_head.markov_w2": (VOCAB, rank)}
        shapes |= {"confidence_head.proj": (1, WIDTH + rank)}
    out: dict[str, mx.array] = {}
    for name, shape in shapes.items():
        out |= _stored(case, f"{name}.weight", _random(f"{case.kind} {name}", shape))
    if case.kind == "dspark":
        out["confidence_head.proj.bias"] = mx.array([0.25]).astype(DTYPES[case.dtype])
    return out


def table(case: Case) -> mx.array:
    """The target's embedding, which is its head too."""
    return mx.array(_random("target", (VOCAB, WIDTH)) * 4).astype(DTYPES[case.dtype])


def features(case: Case, row: int, round: int) -> mx.array:
    """A row's new context, [n, T · width]."""
    shape = (case.fresh[row][round], len(TAPS) * WIDTH)
    return mx.array(_random(f"features {row} {round}", shape) * 6).astype(DTYPES[case.dtype])


def write(case: Case, place: Path) -> Path:
    """The checkpoint, in a new directory under `place`."""
    path = place / case.name
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config(case)))
    mx.save_safetensors(str(path / "model.safetensors"), weights(case))
    return path


def _layer() -> dict[str, tuple[int, ...]]:
    q, kv = HEADS * DIM, KV_HEADS * DIM
    return {
        "input_layernorm": (WIDTH,),
        "post_attention_layernorm": (WIDTH,),
        "self_attn.q_proj": (q, WIDTH),
        "self_attn.k_proj": (kv, WIDTH),
        "self_attn.v_proj": (kv, WIDTH),
        "self_attn.o_proj": (WIDTH, q),
        "self_attn.q_norm": (DIM,),
        "self_attn.k_norm": (DIM,),
        "mlp.gate_proj": (INNER, WIDTH),
        "mlp.up_proj": (INNER, WIDTH),
        "mlp.down_proj": (WIDTH, INNER),
    }


def _random(name: str, shape: tuple[int, ...]) -> np.ndarray:
    found = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32) * 0.17
    return 1 + found if len(shape) == 1 else found


def _stored(case: Case, name: str, values: np.ndarray) -> dict[str, mx.array]:
    tensor = mx.array(values).astype(DTYPES[case.dtype])
    if not case.bits or tensor.ndim != 2 or tensor.shape[0] == 1:
        return {name: tensor}
    stem = name.removesuffix(".weight")
    words, scales, biases = mx.quantize(tensor, group_size=32, bits=case.bits)
    return {name: words, f"{stem}.scales": scales, f"{stem}.biases": biases}
