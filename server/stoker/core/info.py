"""Facts about the model being served, for `/props`, `/v1/models` and the start-up lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
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


class Standing(StrEnum):
    """What the budget makes of a drafter."""

    PROFILING = "profiling"
    """Too few requests have been measured."""
    KEPT = "kept"
    DECLINED = "declined"
    """Its rounds cost more than they yield; it is tried again within a small share of the time."""


@dataclass(frozen=True, slots=True)
class DraftVerdict:
    """What drafting one row alone is worth, by what was measured in this run and the ones before it."""

    drafters: str
    standing: Standing
    gain: float
    """Tokens per second at the best width over those of plain ticks."""
    width: int
    """That width, in columns."""
    requests: int
    """How many it was measured with."""
    acceptance: tuple[float, ...]
    """The probability that proposals 1, 2, … are accepted, each with the ones before it."""


@dataclass(frozen=True, slots=True)
class BudgetView:
    """What the budget knows and has decided since the start."""

    costs: tuple[TickCost, ...] = ()
    ticks: tuple[tuple[int, int], ...] = ()
    """Ticks by width in columns."""
    declined: int = 0
    """Ticks in which rows would have drafted and it did not pay."""
    verdicts: tuple[DraftVerdict, ...] = ()
