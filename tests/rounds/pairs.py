"""Tiny targets with the MTP and Glimmer drafters that fit them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlx import nn

from models import tiny
from models.nets import published
from stoker.rounds import glimmer, mtp
from stoker.rounds.base import Drafter


@dataclass(frozen=True)
class Pair:
    make: Callable[[], nn.Module]
    write: Callable[[Path], Path]
    load: Callable[..., Drafter] = mtp.load


def ordered(place: Path) -> Path:
    return published.gemma_assistant(place, ordered=True)


PAIRS = {
    "gemma4": Pair(published.gemma_target, published.gemma_assistant),
    "gemma4 ordered": Pair(published.gemma_target, ordered),
    "gemma4 shared": Pair(tiny.gemma4_shared, published.gemma_assistant),
    "qwen3_5": Pair(published.qwen_target, published.qwen_native),
    "qwen3_5 experts": Pair(tiny.qwen3_5_moe, lambda place: published.qwen_native(place, moe=True)),
    "glimmer": Pair(published.glimmer_target, published.glimmer_assistant, glimmer.load),
}
