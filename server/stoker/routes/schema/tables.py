"""The number fields of llama-server b10622 as a table (spec/llama-server.md, section 4)."""

from stoker.routes.schema.fields import FLOAT_MAX, INT64_MAX, INT_MAX, Field, Type


def _int(*names: str, low: float | None = None, soft: bool = False, high: float = INT_MAX) -> Field:
    return Field(names, Type.INT, low, high, soft)


def _float(*names: str, low: float | None = None, high: float = FLOAT_MAX, soft: bool = True) -> Field:
    return Field(names, Type.FLOAT, low, high, soft)


SAMPLING = {
    "temperature": _float("temperature", low=0),
    "dynatemp_range": _float("dynatemp_range"),
    "dynatemp_exponent": _float("dynatemp_exponent"),
    "top_k": _int("top_k", low=0, soft=True),
    "top_p": _float("top_p", low=0, high=1),
    "min_p": _float("min_p", low=0, high=1),
    "top_n_sigma": _float("top_n_sigma"),
    "xtc_probability": _float("xtc_probability", low=0, high=1),
    "xtc_threshold": _float("xtc_threshold", low=0, high=1),
    "typical_p": _float("typical_p"),
    "repeat_last_n": _int("repeat_last_n", low=0),
    "repeat_penalty": _float("repeat_penalty"),
    "presence_penalty": _float("presence_penalty"),
    "frequency_penalty": _float("frequency_penalty"),
    "dry_multiplier": _float("dry_multiplier"),
    "dry_base": _float("dry_base"),
    "dry_allowed_length": _int("dry_allowed_length", low=0),
    "dry_penalty_last_n": _int("dry_penalty_last_n", low=0),
    "mirostat": _int("mirostat", low=0, high=2, soft=True),
    "mirostat_tau": _float("mirostat_tau"),
    "mirostat_eta": _float("mirostat_eta"),
    "adaptive_target": _float("adaptive_target", low=-FLOAT_MAX, high=1),
    "adaptive_decay": _float("adaptive_decay", low=0, high=0.99, soft=False),
    "min_keep": _int("min_keep", low=0),
}
"""Fields of `core.request.Sampling` that are plain numbers, by their name there."""

PREDICT = _int("n_predict", "max_completion_tokens", "max_tokens", low=-1)
PREDICT_MS = Field(("t_max_predict_ms",), Type.INT, -1, INT64_MAX, booleans=False)
INDENT = _int("n_indent", low=0)
KEEP = _int("n_keep", low=-1)
DISCARD = _int("n_discard", low=0)
CACHE_REUSE = _int("n_cache_reuse", low=0)
PING = _int("sse_ping_interval", low=-1)
PROBS = _int("n_probs", "logprobs")
REASONING_BUDGET = _int("reasoning_budget_tokens", low=-1)
SEED = Field(("seed",), Type.INT, -(2**63), 2**64)


def choices(slots: int) -> Field:
    """`n_cmpl`: at most one answer a slot."""
    return _int("n_cmpl", "n", low=1, high=slots)
