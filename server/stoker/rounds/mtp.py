"""MTP drafters by their form: Gemma 4's assistant, or Qwen3.5's own heads (in the target's shards, or a sidecar).

A pair that does not fit is refused here, before the first request, naming both sides.
"""

from pathlib import Path

from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.detect import GEMMA_ASSISTANTS, Detected, inspect
from stoker.models.nets import gemma4_assistant, qwen3_5_mtp
from stoker.models.nets.lender import Lender, lend
from stoker.models.nets.shards import read_config
from stoker.models.target import Target
from stoker.rounds.mtp_assistant import MtpAssistant, sources
from stoker.rounds.mtp_heads import MtpHeads

GEMMA = ("gemma4", "gemma4_text")
QWEN = ("qwen3_5", "qwen3_5_moe", "qwen3_next")
"""Families of mlx-lm that each form goes with."""

Mtp = MtpAssistant | MtpHeads


def load(path: Path, target: Target, *, most: int | None = None, own: bool = False) -> Mtp:
    """The drafter in that directory; `own`: the directory is the target's, whose internal heads are meant.

    `most` proposals a round; None: what the checkpoint is made for. Raises StartError, one line.
    """
    lender = lend(target)
    found = inspect(path)
    if found.kind is not Kind.MTP:
        raise StartError(_no_mtp(path, found, own=own))
    config = read_config(path)
    if config.get("model_type") in GEMMA_ASSISTANTS:
        return _assistant(path, target, lender, most)
    _require_family(path, target, lender, QWEN, "Qwen3.5 MTP heads")
    net = qwen3_5_mtp.load(path)
    _require_measures(path, lender, net.width, net.vocab)
    return MtpHeads(net, target, lender, most=most or qwen3_5_mtp.block_size(config) - 1)


def _assistant(path: Path, target: Target, lender: Lender, most: int | None) -> MtpAssistant:
    _require_family(path, target, lender, GEMMA, "a Gemma 4 assistant")
    net = gemma4_assistant.load(path)
    _require_measures(path, lender, net.width, net.vocab)
    try:
        heads = [target.key_heads(place) for place in sources(target, net.layer_types)]
    except ValueError as error:
        raise StartError(f"the drafter {path} does not fit the target {lender.name}: {error}") from None
    for kind, (count, dim) in zip(net.layer_types, heads, strict=True):
        queries, own = net.heads(kind)
        if dim != own or queries % count:
            raise StartError(
                f"the drafter {path} has {queries} heads of {own} in its {kind} layers, "
                f"the target {lender.name} {count} key heads of {dim}"
            )
    return MtpAssistant(net, target, lender, most=most or net.block - 1)


def _require_family(path: Path, target: Target, lender: Lender, families: tuple[str, ...], what: str) -> None:
    if target.model.model_type not in families:
        raise StartError(f"{path} holds {what} for a {' or '.join(families)} target, and the target is {lender.name}")
    if lender.norm is None:
        raise StartError(f"{lender.name}: no final norm is found, behind which {path} reads")


def _require_measures(path: Path, lender: Lender, width: int, vocab: int) -> None:
    if width != lender.width:
        raise StartError(
            f"the drafter {path} is made for {width} hidden units, the target {lender.name} has {lender.width}"
        )
    if vocab != lender.vocab:
        raise StartError(f"the drafter {path} is made for {vocab} tokens, the target {lender.name} has {lender.vocab}")


def _no_mtp(path: Path, found: Detected, *, own: bool) -> str:
    if own:
        return (
            f"{path} holds no MTP heads ({found.evidence}; conversions often drop them): give --draft-model with "
            "a Gemma 4 assistant or a sidecar, which stoker convert --mtp writes from the original checkpoint"
        )
    return f"{path} is a {found.kind} drafter ({found.evidence}), not mtp"
