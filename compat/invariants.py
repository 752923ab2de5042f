"""What must hold inside one answer, whatever the recording says: sums, rates, echoes.

The formulas are those of llama-server's `timings` (spec/llama-server.md, sections 5, 6 and 8).
"""

import math
from collections.abc import Iterator
from typing import Any

from compat.answer import Json
from compat.rules import Context, is_int

Broken = tuple[str, str, Json]
"""Path, what should hold, what was found."""


def broken(value: Json, path: str, ctx: Context) -> Iterator[Broken]:
    """Every rule that a body or a frame breaks, its nested objects included."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from broken(item, f"{path}[{index}]", ctx)
    if not isinstance(value, dict):
        return
    timings = value.get("timings")
    if isinstance(timings, dict):
        yield from _timings(timings, f"{path}.timings")
    if ctx.generates:
        yield from _totals(value, path, ctx)
        yield from _bytes(value, path)
    for key, item in value.items():
        yield from broken(item, f"{path}.{key}", ctx)


def _numbers(value: dict[str, Any], *names: str) -> list[float] | None:
    found = [value.get(name) for name in names]
    return [number for number in found if isinstance(number, int | float)] if None not in found else None


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def _timings(timings: dict[str, Any], path: str) -> Iterator[Broken]:
    for phase, less in (("prompt", 0), ("predicted", 1)):
        names = [f"{phase}_n", f"{phase}_ms", f"{phase}_per_token_ms", f"{phase}_per_second"]
        numbers = _numbers(timings, *names)
        if numbers is None or len(numbers) != 4:
            continue
        count, duration, per_token, per_second = numbers
        steps = count - less
        want = (duration / steps, 1e3 * steps / duration) if steps > 0 and duration > 0 else (0.0, 0.0)
        for name, expected, got in zip(names[2:], want, (per_token, per_second), strict=True):
            if not _near(expected, got):
                yield f"{path}.{name}", f"{expected!r}, from {names[0]} and {names[1]}", got
    draft = _numbers(timings, "draft_n", "draft_n_accepted")
    if draft and len(draft) == 2 and not 0 < draft[0] >= draft[1]:
        yield f"{path}.draft_n_accepted", f"at most draft_n = {draft[0]}", draft[1]
    rounds = _numbers(timings, "draft_n", "draft_rounds")
    if rounds and len(rounds) == 2 and not 1 <= rounds[1] <= rounds[0]:
        yield f"{path}.draft_rounds", f"at least 1 and at most draft_n = {rounds[0]}", rounds[1]


def _totals(value: dict[str, Any], path: str, ctx: Context) -> Iterator[Broken]:
    timings, usage = _object(value, "timings"), _object(value, "usage")
    details = _object(usage, "prompt_tokens_details")
    prompt: Any = value.get("tokens_evaluated", usage.get("prompt_tokens"))
    predicted: Any = value.get("tokens_predicted", usage.get("completion_tokens"))
    cached, fresh = timings.get("cache_n"), timings.get("prompt_n")
    yield from _equal(f"{path}.timings.prompt_n", "tokens of the prompt less cache_n", _less(prompt, cached), fresh)
    yield from _equal(
        f"{path}.timings.predicted_n", "the number of tokens predicted", predicted, timings.get("predicted_n")
    )
    yield from _equal(
        f"{path}.usage.prompt_tokens_details.cached_tokens", "cache_n", cached, details.get("cached_tokens")
    )
    if is_int(usage.get("prompt_tokens")) and is_int(usage.get("completion_tokens")):
        total = usage["prompt_tokens"] + usage["completion_tokens"]
        yield from _equal(
            f"{path}.usage.total_tokens", "prompt_tokens + completion_tokens", total, usage.get("total_tokens")
        )
    if is_int(prompt) and is_int(predicted) and "tokens_cached" in value:
        held = prompt + predicted - 1
        yield from _equal(
            f"{path}.tokens_cached", "tokens_evaluated + tokens_predicted - 1", held, value["tokens_cached"]
        )
    if ctx.asked("cache_prompt") is False:
        yield from _equal(f"{path}.timings.cache_n", "0, as cache_prompt is false", 0, cached)


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _less(total: Any, part: Any) -> int | None:
    return int(total) - int(part) if is_int(total) and is_int(part) else None


def _equal(path: str, says: str, want: Any, got: Any) -> Iterator[Broken]:
    """Compare where both are there; absence is the comparison's business."""
    if is_int(want) and is_int(got) and want != got:
        yield path, f"{want}: {says}", got


def _bytes(value: dict[str, Any], path: str) -> Iterator[Broken]:
    token, raw = value.get("token"), value.get("bytes")
    if isinstance(token, str) and isinstance(raw, list) and "\ufffd" not in token and raw != list(token.encode()):
        yield f"{path}.bytes", f"the UTF-8 bytes of {token!r}", raw
    for name, key in (("top_logprobs", "logprob"), ("top_probs", "prob")):
        top = value.get(name)
        numbers = [item.get(key) for item in top if isinstance(item, dict)] if isinstance(top, list) else []
        if all(isinstance(number, float) for number in numbers) and numbers != sorted(numbers, key=_key, reverse=True):
            yield f"{path}.{name}", "in descending order", numbers


def _key(number: Any) -> float:
    return float(number)
