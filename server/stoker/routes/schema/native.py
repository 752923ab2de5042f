"""A native body to a Job. Chat bodies are turned into native ones first and come here too."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import cast

from stoker.core.errors import NotSupported
from stoker.core.request import MAX_SEED, Limits, Sampling
from stoker.routes.body import members
from stoker.routes.schema import tables
from stoker.routes.schema.bias import read_bias
from stoker.routes.schema.fields import (
    field_error,
    find,
    lenient,
    lenient_int,
    read_array,
    read_bool,
    read_int,
    read_number,
    read_string,
    type_error,
)
from stoker.routes.schema.grammar import read_grammar, read_preserved
from stoker.routes.schema.job import Ids, Job, Options
from stoker.routes.schema.speculation import read_speculation
from stoker.routes.schema.thinking import read_thought
from stoker.routes.service import Service

Body = Mapping[str, object]

SAMPLER_LETTERS = {
    "d": "dry",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "s": "top_n_sigma",
    "m": "min_p",
    "t": "temperature",
    "x": "xtc",
    "i": "infill",
    "e": "penalties",
    "a": "adaptive_p",
}
REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")


def read_job(body: Body, prompts: list[Ids], service: Service) -> Job:
    """Raises InvalidRequest for a field of wrong type or domain, NotSupported for one that is not built yet."""
    grammar = read_grammar(body, service)
    sampling = read_sampling(body, service)
    drawn = sampling.seed == MAX_SEED
    if drawn:
        sampling = replace(sampling, seed=random_seed())
    options = read_options(body, service)
    thought = read_thought(body, service)
    return Job(tuple(prompts), sampling, read_limits(body, service), options, drawn, thought=thought, grammar=grammar)


def random_seed() -> int:
    """Any seed but the one that means "random"."""
    return secrets.randbelow(MAX_SEED)


def not_built(name: str) -> NotSupported:
    return NotSupported(f"Field '{name}': not built yet")


def read_sampling(body: Body, service: Service) -> Sampling:
    base = service.sampling
    given = asdict(base)
    numbers = {name: read_number(body, field, given[name]) for name, field in tables.SAMPLING.items()}
    if numbers["dry_base"] < 1.0:
        numbers["dry_base"] = base.dry_base
    wished = find(body, ("logit_bias",))
    bias = read_bias(wished[1], service.tokenizer) if wished else base.logit_bias
    if read_bool(body, "ignore_eos", service.defaults.ignore_eos):
        bias += tuple((token, -math.inf) for token in sorted(service.tokenizer.end_ids))
    return replace(
        base,
        **numbers,
        seed=int(read_number(body, tables.SEED, base.seed)) % (MAX_SEED + 1),
        dry_sequence_breakers=_breakers(body, base.dry_sequence_breakers),
        samplers=_samplers(body, base.samplers),
        logit_bias=bias,
    )


def read_limits(body: Body, service: Service) -> Limits:
    base = service.limits
    predict = read_int(body, tables.PREDICT, -1)
    return Limits(
        predict=base.predict if predict == -1 else predict,
        stop=_stops(body) or base.stop,
        predict_ms=read_int(body, tables.PREDICT_MS, base.predict_ms),
        indent=read_int(body, tables.INDENT, base.indent),
    )


def read_options(body: Body, service: Service) -> Options:
    defaults = service.defaults
    usage = members(body.get("stream_options"))
    slot = lenient_int(body, "id_slot", -1)
    read_int(body, tables.CACHE_REUSE, defaults.cache_reuse)
    return Options(
        stream=read_bool(body, "stream", False),
        include_usage=read_bool(usage, "include_usage", False),
        return_tokens=read_bool(body, "return_tokens", False),
        return_progress=read_bool(body, "return_progress", False),
        timings_per_token=read_bool(body, "timings_per_token", False),
        verbose=read_bool(body, "verbose", defaults.verbose),
        echo=lenient(body, "echo", False),
        ping_interval=read_int(body, tables.PING, defaults.ping_interval),
        n=read_int(body, tables.choices(service.slots), 1),
        response_fields=tuple(_strings("response_fields", read_array(body, "response_fields") or [])),
        keep=read_int(body, tables.KEEP, defaults.keep),
        discard=read_int(body, tables.DISCARD, 0),
        ignore_eos=read_bool(body, "ignore_eos", defaults.ignore_eos),
        backend_sampling=read_bool(body, "backend_sampling", defaults.backend_sampling),
        lora=_lora(body),
        reasoning_format=read_reasoning_format(body, defaults.reasoning_format),
        reasoning_control=read_bool(body, "reasoning_control", False),
        preserved=read_preserved(body, service.tokenizer),
        slot=slot % service.slots if slot >= 0 else -1,
        cache_prompt=read_bool(body, "cache_prompt", defaults.cache_prompt),
        probs=max(0, min(read_int(body, tables.PROBS, 0), service.tokenizer.vocab)),
        post_sampling_probs=read_bool(body, "post_sampling_probs", False),
        speculation=read_speculation(body),
    )


def read_reasoning_format(body: Body, default: str) -> str:
    name = read_string(body, "reasoning_format", default)
    if name not in (*REASONING_FORMATS, default):
        raise field_error("reasoning_format", f"Unknown reasoning format: {name}")
    return name


def _stops(body: Body) -> tuple[str, ...]:
    found = find(body, ("stop",))
    if found is None:
        return ()
    words = [found[1]] if isinstance(found[1], str) else found[1]
    if not isinstance(words, list):
        raise field_error("stop", type_error("array", words))
    return tuple(word for word in _strings("stop", cast("list[object]", words)) if word)


def _strings(name: str, values: list[object]) -> list[str]:
    for value in values:
        if not isinstance(value, str):
            raise field_error(name, type_error("string", value))
    return cast("list[str]", values)


def _breakers(body: Body, default: tuple[str, ...]) -> tuple[str, ...]:
    found = find(body, ("dry_sequence_breakers",))
    if found is None:
        return default
    words = cast("list[object]", found[1]) if isinstance(found[1], list) else []
    if not words or not all(isinstance(word, str) for word in words):
        raise field_error(found[0], "Error: dry_sequence_breakers must be a non-empty array of strings")
    return tuple(cast("list[str]", words))


def _samplers(body: Body, default: tuple[str, ...]) -> tuple[str, ...]:
    """Names or letters; unknown ones are dropped."""
    found = find(body, ("samplers",))
    if found is None:
        return default
    name, value = found
    if isinstance(value, str):
        chosen = [SAMPLER_LETTERS[letter] for letter in value if letter in SAMPLER_LETTERS]
    elif isinstance(value, list):
        known = SAMPLER_LETTERS.values()
        chosen = [str(word) for word in cast("list[object]", value) if word in known]
    else:
        raise field_error(name, type_error("array", value))
    if "infill" in chosen:
        raise NotSupported("Field 'samplers': infill is not built yet")
    return tuple(chosen)


def _lora(body: Body) -> tuple[Mapping[str, object], ...]:
    """Echoed as given, also where no adapter is loaded."""
    found = find(body, ("lora",))
    if found is None:
        return ()
    entries = cast("list[object]", found[1]) if isinstance(found[1], list) else [None]
    if not all(isinstance(entry, dict) for entry in entries):
        raise field_error("lora", "Error: 'lora' must be an array of objects with 'id' and 'scale' fields")
    return tuple(_adapter(cast("Body", entry)) for entry in entries)


def _adapter(entry: Body) -> dict[str, object]:
    scale = entry.get("scale")
    number = float(scale) if isinstance(scale, int | float) and not isinstance(scale, bool) else 0.0
    return {"id": lenient_int(entry, "id", -1), "scale": number}
