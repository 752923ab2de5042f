"""`generation_settings`: 49 keys in llama-server's order, 42 in `/props` and `/slots`."""

import math
from collections.abc import Mapping

from stoker.core.request import Grammar, Limits, Sampling, Trigger, TriggerKind
from stoker.routes.body import Json
from stoker.routes.schema.fields import widen
from stoker.routes.schema.job import Options

NO_GRAMMAR = Grammar()
LONG_ONLY = (
    "dry_sequence_breakers",
    "stop",
    "logit_bias",
    "grammar",
    "grammar_lazy",
    "grammar_triggers",
    "preserved_tokens",
)


def generation_settings(
    sampling: Sampling, limits: Limits, options: Options, speculative_types: str, grammar: Grammar = NO_GRAMMAR
) -> Json:
    """What is really in force, numbers as float32 prints them. `seed` is the one that was drawn (a deviation)."""
    return _sampling(sampling) | {
        "stop": list(limits.stop),
        "max_tokens": limits.predict,
        "n_predict": limits.predict,
        "n_keep": options.keep,
        "n_discard": options.discard,
        "ignore_eos": options.ignore_eos,
        "stream": options.stream,
        "logit_bias": [{"bias": _finite(bias), "token": token} for token, bias in sampling.logit_bias],
        "n_probs": options.probs,
        "min_keep": sampling.min_keep,
        "grammar": grammar.text,
        "grammar_lazy": grammar.lazy,
        "grammar_triggers": [_trigger(trigger) for trigger in grammar.triggers],
        "preserved_tokens": list(options.preserved),
        "chat_format": options.chat_format,
        "reasoning_format": options.reasoning_format,
        "reasoning_in_content": options.reasoning_in_content,
        "generation_prompt": options.generation_prompt,
        "samplers": list(sampling.samplers),
        "speculative.types": speculative_types,
        "timings_per_token": options.timings_per_token,
        "post_sampling_probs": options.post_sampling_probs,
        "backend_sampling": options.backend_sampling,
        "lora": [dict(adapter) for adapter in options.lora],
    }


def _trigger(trigger: Trigger) -> Json:
    token: Json = {"token": trigger.token} if trigger.kind is TriggerKind.TOKEN else {}
    return {"type": int(trigger.kind), "value": trigger.text, **token}


def short(settings: Mapping[str, object]) -> Json:
    return {name: value for name, value in settings.items() if name not in LONG_ONLY}


def _sampling(sampling: Sampling) -> Json:
    return {
        "seed": sampling.seed,
        "temperature": widen(sampling.temperature),
        "dynatemp_range": widen(sampling.dynatemp_range),
        "dynatemp_exponent": widen(sampling.dynatemp_exponent),
        "top_k": sampling.top_k,
        "top_p": widen(sampling.top_p),
        "min_p": widen(sampling.min_p),
        "top_n_sigma": widen(sampling.top_n_sigma),
        "xtc_probability": widen(sampling.xtc_probability),
        "xtc_threshold": widen(sampling.xtc_threshold),
        "typical_p": widen(sampling.typical_p),
        "repeat_last_n": sampling.repeat_last_n,
        "repeat_penalty": widen(sampling.repeat_penalty),
        "presence_penalty": widen(sampling.presence_penalty),
        "frequency_penalty": widen(sampling.frequency_penalty),
        "dry_multiplier": widen(sampling.dry_multiplier),
        "dry_base": widen(sampling.dry_base),
        "dry_allowed_length": sampling.dry_allowed_length,
        "dry_penalty_last_n": sampling.dry_penalty_last_n,
        "dry_sequence_breakers": list(sampling.dry_sequence_breakers),
        "mirostat": sampling.mirostat,
        "mirostat_tau": widen(sampling.mirostat_tau),
        "mirostat_eta": widen(sampling.mirostat_eta),
        "adaptive_target": widen(sampling.adaptive_target),
        "adaptive_decay": widen(sampling.adaptive_decay),
    }


def _finite(value: float) -> float | None:
    return widen(value) if math.isfinite(value) else None
