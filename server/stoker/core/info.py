"""Facts about the model being served, for `/props`, `/v1/models` and the start-up lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TokenizerSource = Mapping[str, object] | Path
"""Where a tokenizer comes from: a GGUF file's metadata, or a directory that holds tokenizer.json."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    path: str
    """The file or directory that was loaded, as the user named it."""
    family: str
    """mlx-lm's name of the architecture: `llama`, `qwen3`, …"""
    ftype: str
    """How the weights are stored in the file: `Q4_1`, `F16`, `4-bit`, …"""
    vocab: int
    context: int
    """Context length in tokens that the model was trained for."""
    width: int
    """Hidden size."""
    parameters: int
    size: int
    """Bytes of the weights as stored."""


@dataclass(frozen=True, slots=True)
class TickCost:
    """What a tick of a shape takes, as far as it was measured."""

    drafters: str
    """The drafters whose forwards are in it, `target` for none."""
    rows: int
    width: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BudgetView:
    """What the budget knows and has decided since the start."""

    costs: tuple[TickCost, ...] = ()
    ticks: tuple[tuple[int, int], ...] = ()
    """Ticks by width in columns."""
    declined: int = 0
    """Ticks in which rows would have drafted and it did not pay."""
