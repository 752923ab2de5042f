"""Facts about the model being served, for `/props`, `/v1/models` and the start-up lines."""

from dataclasses import dataclass


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
