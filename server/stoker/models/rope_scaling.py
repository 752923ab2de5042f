"""How a GGUF file stretches its rotary positions, as mlx-lm's `rope_scaling`."""

import math
import struct

from stoker.core.errors import StartError
from stoker.models.gguf_file import GgufFile

ROPE_FREQS = "rope_freqs.weight"
LLAMA3_LOW, LLAMA3_HIGH = 1.0, 4.0
LLAMA3_CONTEXTS = tuple(2**power for power in range(10, 19))
YARN = {
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
    "original_context_length": "original_max_position_embeddings",
}


def rope_scaling(file: GgufFile, arch: str, head_dim: int, base: float) -> dict[str, object] | None:
    """None when positions are used as they are. Raises StartError for a scaling that mlx-lm has no name for."""
    factors = _factors(file)
    if factors is not None:
        return _llama3(file, factors, head_dim, base)
    prefix = f"{arch}.rope.scaling."
    kind = file.metadata.get(f"{prefix}type")
    factor = file.metadata.get(f"{prefix}factor", file.metadata.get(f"{arch}.rope.scale_linear"))
    if kind == "none" or not isinstance(factor, int | float) or factor in (0, 1):
        return None
    if kind in (None, "linear"):
        return {"rope_type": "linear", "factor": float(factor)}
    if kind != "yarn":
        raise StartError(f"{file.path}: rope scaling {kind!r} is not supported (linear, yarn and llama3 are)")
    found = {ours: file.metadata[prefix + key] for key, ours in YARN.items() if prefix + key in file.metadata}
    found.setdefault("original_max_position_embeddings", file.metadata.get(f"{arch}.context_length", 4096))
    return {"rope_type": "yarn", "factor": float(factor), **found}


def _factors(file: GgufFile) -> tuple[float, ...] | None:
    for entry in file.tensors:
        if entry.name == ROPE_FREQS:
            with file.path.open("rb") as stored:
                stored.seek(entry.offset)
                return struct.unpack(f"<{entry.elements}f", stored.read(4 * entry.elements))
    return None


def _llama3(file: GgufFile, factors: tuple[float, ...], head_dim: int, base: float) -> dict[str, object] | None:
    """Finds the parameters that the converter computed the factors from."""
    largest = max(factors)
    if largest <= 1.0:
        return None
    for context in LLAMA3_CONTEXTS:
        expected = llama3_factors(largest, context, head_dim, base)
        if all(math.isclose(ours, theirs, rel_tol=1e-4) for ours, theirs in zip(expected, factors, strict=True)):
            return {
                "rope_type": "llama3",
                "factor": largest,
                "low_freq_factor": LLAMA3_LOW,
                "high_freq_factor": LLAMA3_HIGH,
                "original_max_position_embeddings": context,
            }
    raise StartError(f"{file.path}: {ROPE_FREQS} follows no llama3 rope scaling; other factors are not supported")


def llama3_factors(factor: float, context: int, head_dim: int, base: float) -> list[float]:
    """By what each frequency's wavelength is stretched (transformers' `rope_type: llama3`), head_dim / 2 numbers."""
    found: list[float] = []
    for index in range(0, head_dim, 2):
        wavelength = 2 * math.pi * base ** (index / head_dim)
        turns = context / wavelength
        if turns > LLAMA3_HIGH:
            found.append(1.0)
        elif turns < LLAMA3_LOW:
            found.append(factor)
        else:
            smooth = (turns - LLAMA3_LOW) / (LLAMA3_HIGH - LLAMA3_LOW)
            found.append(1 / ((1 - smooth) / factor + smooth))
    return found
