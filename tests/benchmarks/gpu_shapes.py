"""Targets and drafters in published shapes (`gpu_configs.py`), with random weights made where they are computed."""

import copy
import importlib
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from benchmarks.gpu_configs import (
    DFLASH_4B,
    DFLASH_8B,
    GEMMA4_12B,
    GEMMA4_ASSISTANT,
    QWEN3_8B,
    QWEN35_4B,
    QWEN35_27B,
    SMALL,
    SMALL_DELTA,
    SMALL_DRAFT,
    SMALL_GEMMA,
    Settings,
)
from stoker.models.nets import block_config
from stoker.models.nets.dflash import DFlashNet, layout
from stoker.models.nets.gemma4_assistant import GemmaAssistant
from stoker.models.nets.lender import lend
from stoker.models.nets.qwen3_5_mtp import Qwen35Mtp
from stoker.models.target import Target
from stoker.rounds.dflash import DFlash
from stoker.rounds.mtp_assistant import MtpAssistant
from stoker.rounds.mtp_heads import MtpHeads

GROUP = 64
QUIET = 0.05
"""What residual branches are scaled by in a decided target: the token that was read stays the largest part."""

MTP_MOST = 5
"""Proposals of a round of MTP drafters, for widths up to 6."""


@dataclass(frozen=True)
class Drafted:
    """A drafter whose nets are real, and its network."""

    drafter: DFlash | MtpAssistant | MtpHeads
    net: nn.Module


Make = Callable[[Target, Settings, mx.Dtype], Drafted]


@dataclass(frozen=True)
class Pair:
    """A target's family and shape, and the drafter that goes with it."""

    family: str
    config: Settings
    make: Make
    draft: Settings


def dflash(target: Target, config: Settings, dtype: mx.Dtype) -> Drafted:
    settings = block_config.read(config, "the drafter")
    net = DFlashNet(settings, layout(settings))
    fill(net, dtype)
    net.borrow(lend(target))
    return Drafted(DFlash(net, target), net)


def assistant(target: Target, config: Settings, dtype: mx.Dtype) -> Drafted:
    net = GemmaAssistant({"backbone_hidden_size": lend(target).width, "text_config": config, "block_size": 4})
    fill(net, dtype)
    return Drafted(MtpAssistant(net, target, lend(target), most=MTP_MOST), net)


def heads(target: Target, config: Settings, dtype: mx.Dtype) -> Drafted:
    net = Qwen35Mtp(config)
    fill(net, dtype)
    return Drafted(MtpHeads(net, target, lend(target), most=MTP_MOST), net)


def build(family: str, config: Settings, dtype: mx.Dtype, bits: int, seed: int = 0) -> nn.Module:
    """mlx-lm's model with mlx's own random weights; `bits` 0: as they are, else packed in groups of 64."""
    mx.random.seed(seed)
    module = importlib.import_module(f"mlx_lm.models.{family}")
    settings = copy.deepcopy(config)
    wrapped = {"text_config": settings} if family == "qwen3_5" else settings
    model = module.Model(module.ModelArgs.from_dict({**wrapped, "model_type": family}))
    fill(model, dtype, bits)
    return model


def fill(net: nn.Module, dtype: mx.Dtype, bits: int = 0) -> None:
    """Makes its weights in that type, one array after the other: the float32 originals never stand together."""
    net.set_dtype(dtype)
    if bits:
        nn.quantize(net, GROUP, bits)
    net.eval()
    for _, array in tree_flatten(net.parameters()):
        mx.eval(array)


def decide(model: nn.Module, family: str, config: Settings, dtype: mx.Dtype, bits: int) -> int:
    """Makes the greedy text of a random target clear, at any width and company; its shapes stay.

    Residual branches become quiet, so that the last hidden state points where the token's embedding did,
    and the head's row i + 1 is the embedding of token i: after i comes i + 1. Where head and embedding are
    one table, i follows i. Returns how much further each token is, 1 or 0.
    """
    gemma = family == "gemma4_text"
    width, vocab = config["hidden_size"], config["vocab_size"]
    for path, module in model.named_modules():
        name = path.rpartition(".")[2]
        if gemma and name in ("post_attention_layernorm", "post_feedforward_layernorm"):
            module["weight"] = module["weight"] * QUIET
        elif not gemma and name in ("o_proj", "out_proj", "down_proj"):
            _scale(module, QUIET)
    table = mx.random.normal((vocab, width), scale=width**-0.5 if gemma else 1.0).astype(dtype)
    tied = config["tie_word_embeddings"]
    for path, module in model.named_modules():
        name = path.rpartition(".")[2]
        if name == "embed_tokens":
            _replace(module, table, bits)
        elif name == "lm_head":
            _replace(module, (mx.concatenate([table[-1:], table[:-1]]) * width**-0.5).astype(dtype), bits)
    for _, array in tree_flatten(model.parameters()):
        mx.eval(array)
    return 0 if tied else 1


def _scale(module: nn.Module, factor: float) -> None:
    names = ("scales", "biases") if "scales" in module else ("weight",)
    for name in names:
        module[name] = module[name] * factor


def _replace(module: nn.Module, weight: mx.array, bits: int) -> None:
    if not bits:
        module["weight"] = weight
        return
    module["weight"], module["scales"], module["biases"] = mx.quantize(weight, GROUP, bits)


SHAPES: dict[str, Pair] = {
    "qwen3-8b": Pair("qwen3", QWEN3_8B, dflash, DFLASH_8B),
    "qwen3.5-4b": Pair("qwen3_5", QWEN35_4B, dflash, DFLASH_4B),
    "gemma4-12b": Pair("gemma4_text", GEMMA4_12B, assistant, GEMMA4_ASSISTANT),
    "qwen3.5-27b": Pair("qwen3_5", QWEN35_27B, heads, QWEN35_27B),
}
SHAPES |= {
    "tiny": Pair("qwen3", QWEN3_8B | SMALL | {"num_hidden_layers": 4}, dflash, SMALL_DRAFT),
    "tiny-qwen3.5": Pair("qwen3_5", QWEN35_4B | SMALL_DELTA, dflash, SMALL_DRAFT),
    "tiny-gemma4": Pair(
        "gemma4_text",
        GEMMA4_12B | SMALL_GEMMA,
        assistant,
        GEMMA4_ASSISTANT
        | SMALL_GEMMA
        | {"num_hidden_layers": 2, "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "tiny-heads": Pair("qwen3_5", QWEN35_27B | SMALL_DELTA, heads, QWEN35_27B | SMALL_DELTA),
}
