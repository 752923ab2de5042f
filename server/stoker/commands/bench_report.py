"""What a benchmark found, as rows, as a table for a person, and as JSON. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from stoker.commands.bench_plan import OURS, THEIRS
from stoker.commands.bench_run import Block, Done
from stoker.commands.bench_stats import TRUSTED, Overhead, Spread, ratios, spread

ALL = "all"
Figure = Callable[[Done], float | None]


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """Of one arm, over the turns of a row. Rates in tokens per second, `ttft` in seconds."""

    decode: Spread | None
    busy: Spread | None
    aggregate: Spread | None
    ttft: Spread | None
    tokens: int
    failures: int
    drafted: int
    accepted: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Row:
    """One class at one concurrency, or all classes; ratios are ours / theirs over alternated pairs."""

    concurrency: int
    group: str
    arms: dict[str, ArmFigures]
    ratio: dict[str, Spread | None] = field(default_factory=dict[str, Spread | None])
    equal_texts: tuple[int, int] = (0, 0)
    """Pairs of answers with equal text, and pairs compared."""


def decode(done: Done) -> float | None:
    """A turn's rate per stream: the median over its streams."""
    rates = [rate for sample in done.good if (rate := sample.decode) is not None]
    return median(rates) if rates else None


def ttft(done: Done) -> float | None:
    times = [seconds for sample in done.good if (seconds := sample.ttft) is not None]
    return median(times) if times else None


def busy(done: Done) -> float | None:
    return done.busy


def aggregate(done: Done) -> float | None:
    return done.aggregate


FIGURES: dict[str, Figure] = {"decode": decode, "busy": busy, "aggregate": aggregate, "ttft": ttft}


def rows(blocks: Sequence[Block]) -> list[Row]:
    """A row for each class of each block, and one for all classes together."""
    found: list[Row] = []
    for block in blocks:
        groups = list(dict.fromkeys(done.turn.group for done in block.done))
        for group in [*groups, ALL] if len(groups) > 1 else groups:
            chosen = [done for done in block.done if group in (done.turn.group, ALL)]
            found.append(_row(block.concurrency, group, chosen))
    return found


def _row(concurrency: int, group: str, done: Sequence[Done]) -> Row:
    names = list(dict.fromkeys(one.turn.arm.name for one in done))
    arms = {name: _arm([one for one in done if one.turn.arm.name == name]) for name in sorted(names)}
    if THEIRS not in arms or OURS not in arms:
        return Row(concurrency, group, arms)
    ratio = {name: spread(ratios(_pairs(done, OURS, of), _pairs(done, THEIRS, of))) for name, of in FIGURES.items()}
    return Row(concurrency, group, arms, ratio, _equal_texts(done))


def _pairs(done: Sequence[Done], arm: str, figure: Figure) -> dict[object, float]:
    found = {one.turn.pair: figure(one) for one in done if one.turn.arm.name == arm}
    return {pair: value for pair, value in found.items() if value is not None}


def _arm(done: Sequence[Done]) -> ArmFigures:
    series = {name: [value for one in done if (value := of(one)) is not None] for name, of in FIGURES.items()}
    samples = [sample for one in done for sample in one.samples]
    return ArmFigures(
        decode=spread(series["decode"]),
        busy=spread(series["busy"]),
        aggregate=spread(series["aggregate"]),
        ttft=spread(series["ttft"]),
        tokens=sum(sample.tokens for sample in samples),
        failures=sum(bool(sample.failure) for sample in samples),
        drafted=sum(sample.drafted for sample in samples),
        accepted=sum(sample.accepted for sample in samples),
        rounds=sum(sample.rounds for sample in samples),
    )


def _equal_texts(done: Sequence[Done]) -> tuple[int, int]:
    texts = {
        name: {one.turn.pair: [sample.text for sample in one.samples] for one in done if one.turn.arm.name == name}
        for name in (OURS, THEIRS)
    }
    both = [
        (one, other)
        for pair, mine in texts[OURS].items()
        for one, other in zip(mine, texts[THEIRS].get(pair, []), strict=False)
    ]
    return sum(one == other for one, other in both), len(both)


def notes(found: Sequence[Row], blocks: Sequence[Block]) -> list[str]:
    """What a reader must know before believing a figure."""
    return [*_row_notes(found), *_block_notes(blocks)]


def _row_notes(found: Sequence[Row]) -> Iterator[str]:
    for row in found:
        where = f"{row.group} at {row.concurrency}"
        for name, arm in row.arms.items():
            if arm.decode and arm.decode.relative > TRUSTED:
                yield f"{where}, {name}: decode spreads over {100 * arm.decode.relative:.0f} % of the median"
            if arm.failures:
                yield f"{where}, {name}: {arm.failures} requests failed"
        ratio = row.ratio.get("decode")
        if ratio and ratio.relative > TRUSTED:
            yield f"{where}: the ratio spreads over {100 * ratio.relative:.0f} % of its median"
        counts = {arm.tokens for arm in row.arms.values()}
        if len(counts) > 1:
            yield f"{where}: the arms generated different numbers of tokens ({', '.join(map(str, sorted(counts)))})"


def _block_notes(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if block.skipped:
            yield f"at {block.concurrency}: {block.skipped} turns left out, the time was up"
        failures = dict.fromkeys(sample.failure for done in block.done for sample in done.samples if sample.failure)
        yield from (f"at {block.concurrency}: {failure}" for failure in failures)


def table(found: Sequence[Row], blocks: Sequence[Block]) -> str:
    """Medians, with the tenth and ninetieth percentiles in brackets."""
    head = [
        "streams",
        "class",
        "arm",
        "tok/s a stream",
        "tok/s all busy",
        "tok/s to the end",
        "first token ms",
        "drafts",
        "ours/theirs",
    ]
    lines = [cells for row in found for cells in _cells(row)]
    widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [head, *lines]]
    text += [_overhead(block.concurrency, cost) for block in blocks if (cost := block.overhead)]
    return "\n".join(line.rstrip() for line in text)


def costs(blocks: Sequence[Block]) -> str:
    """What the turns cost outside the device's work, a line a concurrency."""
    return "\n".join(
        f"{_overhead(block.concurrency, cost)}; a token {100 * cost.outside / cost.tick / block.concurrency:.2f} %"
        if (cost := block.overhead)
        else f"overhead at {block.concurrency}: unknown, the server has no tick counters (--metrics)"
        for block in blocks
    )


def _cells(row: Row) -> Iterator[list[str]]:
    for index, (name, arm) in enumerate(row.arms.items()):
        lead = [str(row.concurrency), row.group] if index == 0 else ["", ""]
        figures = [_rate(arm.decode), _rate(arm.busy), _rate(arm.aggregate), _rate(arm.ttft, 1e3)]
        yield [*lead, name, *figures, _drafts(arm), _ratio(row) if index == 0 else ""]


def _rate(value: Spread | None, scale: float = 1.0) -> str:
    if value is None:
        return "-"
    return f"{value.median * scale:.1f} ({value.low * scale:.1f}-{value.high * scale:.1f})"


def _drafts(arm: ArmFigures) -> str:
    if not arm.drafted:
        return "-"
    a_round = f", {1 + arm.accepted / arm.rounds:.2f} tokens a round" if arm.rounds else ""
    return f"{arm.accepted}/{arm.drafted}{a_round}"


def _ratio(row: Row) -> str:
    parts: list[str] = []
    for name, word in (("decode", "a stream"), ("busy", "all busy"), ("aggregate", "to the end")):
        value = row.ratio.get(name)
        if value is not None:
            parts.append(f"{value.median:.3f} ({value.low:.3f}-{value.high:.3f}) {word}")
    return ", ".join(parts)


def _overhead(concurrency: int, cost: Overhead) -> str:
    return (
        f"overhead at {concurrency}: {cost.ticks:.0f} ticks of {1e3 * cost.tick:.2f} ms; outside ticks "
        f"{1e3 * cost.outside:.3f} ms a tick ({100 * cost.outside / cost.tick:.1f} %), "
        f"of it the device waited {1e3 * cost.lag:.3f} ms ({100 * cost.lag / cost.tick:.1f} %)"
    )


def as_json(found: Sequence[Row], blocks: Sequence[Block], host: dict[str, Any]) -> dict[str, Any]:
    """Everything, raw samples included; the texts are left out."""
    return {
        **host,
        "rows": [asdict(row) for row in found],
        "overhead": [{"concurrency": b.concurrency, **asdict(b.overhead)} for b in blocks if b.overhead],
        "notes": notes(found, blocks),
        "turns": [_turn(done) for block in blocks for done in block.done],
    }


def _turn(done: Done) -> dict[str, Any]:
    samples = [
        {key: value for key, value in asdict(sample).items() if key not in ("text", "stamps")}
        for sample in done.samples
    ]
    turn = done.turn
    return {
        "arm": turn.arm.name,
        "class": turn.group,
        "concurrency": turn.concurrency,
        "round": turn.round,
        "busy": done.busy,
        "aggregate": done.aggregate,
        "samples": samples,
    }
