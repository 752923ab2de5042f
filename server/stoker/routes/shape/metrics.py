"""`/metrics` in Prometheus' text form: llama-server's names in its order, then our own."""

from collections.abc import Iterator

from stoker.core.counters import DraftOff
from stoker.core.info import BudgetView
from stoker.scheduler.views import Totals


def metrics(totals: Totals, before: Totals, budget: BudgetView | None = None, most: int = 0) -> str:
    """`before` is what the last scrape saw: the two rates are of the time in between. `most`: tokens of a proposal."""
    lines = [*_llamacpp(totals, before), *_positions(totals, most), *_own(totals), *_budget(budget)]
    return "".join(f"{line}\n" for line in lines)


def _llamacpp(totals: Totals, before: Totals) -> Iterator[str]:
    counter, gauge = "counter", "gauge"
    rows: list[tuple[str, str, str, float]] = [
        (
            "prompt_tokens_total",
            counter,
            "Number of prompt tokens processed, excluding cached tokens",
            totals.prompt_tokens,
        ),
        (
            "prompt_tokens_cached_total",
            counter,
            "Number of prompt tokens reused from the cache",
            totals.cached_tokens,
        ),
        ("prompt_seconds_total", counter, "Total time spent processing prompts", totals.prompt_seconds),
        ("tokens_predicted_total", counter, "Number of generation tokens processed", totals.predicted_tokens),
        ("tokens_predicted_seconds_total", counter, "Total time spent generating tokens", totals.predicted_seconds),
        (
            "n_decode_total",
            counter,
            "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding",
            totals.decodes,
        ),
        ("n_tokens_max", counter, "Largest observed sequence length (prompt + generation)", totals.longest),
        (
            "spec_decode_num_draft_tokens_total",
            counter,
            "Speculative: Total draft tokens generated",
            totals.drafted,
        ),
        (
            "spec_decode_num_accepted_tokens_total",
            counter,
            "Speculative: Total draft tokens accepted by the target model",
            totals.accepted,
        ),
        (
            "spec_decode_num_drafts_total",
            counter,
            "Speculative: Total speculative decoding verification steps",
            totals.rounds,
        ),
        (
            "prompt_tokens_seconds",
            gauge,
            "Average prompt throughput in tokens/s",
            _rate(totals.prompt_tokens - before.prompt_tokens, totals.prompt_seconds - before.prompt_seconds),
        ),
        (
            "predicted_tokens_seconds",
            gauge,
            "Average generation throughput in tokens/s",
            _rate(
                totals.predicted_tokens - before.predicted_tokens, totals.predicted_seconds - before.predicted_seconds
            ),
        ),
        ("requests_processing", gauge, "Number of requests processing", totals.busy),
        ("requests_deferred", gauge, "Number of requests deferred", totals.deferred),
        (
            "n_busy_slots_per_decode",
            gauge,
            "Average number of busy slots per llama_decode() call",
            totals.busy_slots / totals.decodes if totals.decodes else 0,
        ),
    ]
    for name, kind, text, value in rows:
        yield from _block(f"llamacpp:{name}", kind, text)
        yield f"llamacpp:{name} {value:.6g}"


def _positions(totals: Totals, most: int) -> Iterator[str]:
    """Once a round has run, all positions that there can be, as upstream; however short the proposals were."""
    name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
    counts = totals.accepted_by_position
    if totals.rounds or counts:
        yield from _block(name, "counter", "Accepted tokens per draft position")
        counts = (*counts, *[0] * (most - len(counts)))
    for position, count in enumerate(counts):
        yield f'{name}{{position="{position}"}} {count:.6g}'


def _own(totals: Totals) -> Iterator[str]:
    rows: list[tuple[str, str, str, str]] = [
        ("ticks_total", "counter", "Number of engine ticks", str(totals.ticks)),
        ("tick_seconds_total", "counter", "Total time spent in engine ticks", f"{totals.tick_seconds:.9g}"),
        ("tick_lag_seconds", "gauge", "Time between the last two ticks while work waited", f"{totals.tick_lag:.6g}"),
        (
            "tick_lag_seconds_total",
            "counter",
            "Total time between ticks while work waited",
            f"{totals.tick_lag_sum:.9g}",
        ),
        (
            "tick_lag_seconds_max",
            "gauge",
            "Longest time between two ticks while work waited",
            f"{totals.tick_lag_max:.6g}",
        ),
        ("prefill_chunks_total", "counter", "Number of forwards that read prompts", str(totals.chunks)),
        (
            "prefill_chunk_seconds_total",
            "counter",
            "Total time of forwards that read prompts",
            f"{totals.chunk_seconds:.9g}",
        ),
        (
            "prefill_chunk_seconds_max",
            "gauge",
            "Longest forward that read prompts",
            f"{totals.chunk_seconds_max:.6g}",
        ),
    ]
    kept = totals.kept
    rows += [
        ("prompt_cache_entries", "gauge", "Number of contents in the prompt cache", str(kept.entries)),
        ("prompt_cache_bytes", "gauge", "Size of the prompt cache", str(kept.size)),
        ("prompt_cache_limit_bytes", "gauge", "Largest size of the prompt cache, -1 if unbounded", str(kept.limit)),
        ("prompt_cache_hits_total", "counter", "Number of prompts that took tokens from it", str(kept.hits)),
        ("prompt_cache_tokens_total", "counter", "Number of tokens taken from it", str(kept.tokens)),
        ("prompt_cache_evictions_total", "counter", "Number of contents dropped for room", str(kept.evicted)),
    ]
    for name, kind, text, value in rows:
        yield from _block(f"stoker:{name}", kind, text)
        yield f"stoker:{name} {value}"
    yield from _block("stoker:draft_off_total", "counter", "Number of requests that were not drafted, by the reason")
    for reason in DraftOff:
        yield f'stoker:draft_off_total{{reason="{reason}"}} {totals.draft_off.get(reason, 0)}'


def _budget(view: BudgetView | None) -> Iterator[str]:
    if view is None:
        return
    yield from _block("stoker:tick_cost_seconds", "gauge", "Measured time of a tick by rows and columns")
    for cost in view.costs:
        labels = f'drafters="{cost.drafters}",rows="{cost.rows}",columns="{cost.width}"'
        yield f"stoker:tick_cost_seconds{{{labels}}} {cost.seconds:.6g}"
    yield from _block("stoker:ticks_by_columns_total", "counter", "Ticks by their width in columns")
    for width, count in view.ticks:
        yield f'stoker:ticks_by_columns_total{{columns="{width}"}} {count}'
    yield from _block("stoker:drafting_declined_total", "counter", "Ticks in which drafting would not have paid")
    yield f"stoker:drafting_declined_total {view.declined}"
    yield from _block("stoker:draft_gain", "gauge", "Tokens per second of one drafted row over plain ones, as measured")
    for it in view.verdicts:
        yield f'stoker:draft_gain{{drafters="{it.drafters}",standing="{it.standing}"}} {it.gain:.6g}'


def _block(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _rate(count: int, seconds: float) -> float:
    return count / seconds if count and seconds > 0 else 0.0
