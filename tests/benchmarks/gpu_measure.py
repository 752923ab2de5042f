"""What is measured on a target and its drafter, one function a table; times are of whatever device MLX has here."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from benchmarks.gpu_play import PROMPT, Oracle, Rate, Timed
from benchmarks.gpu_shapes import Drafted
from benchmarks.gpu_split import Split
from rounds.harness import GREEDY
from stoker.core.clock import now
from stoker.models.comparison import Comparison, compare
from stoker.models.exactness import block_ids, probe, prompt_ids
from stoker.models.exactness_gate import Exactness, Mode
from stoker.models.sampling import Row, Sampler
from stoker.models.target import Target
from stoker.rounds.assembly import seed
from stoker.rounds.budget import Budget
from stoker.rounds.rehearsal import rehearse
from stoker.rounds.speculator import Speculation as How

Line = dict[str, object]
SHORT = 8
"""Columns of the prompts before which blocks and chains are compared."""


@dataclass(frozen=True)
class Subject:
    target: Target
    drafted: Drafted
    step: int
    """After token i comes i + step."""
    out_of_time: Callable[[], bool]
    tokens: int
    """Of each row in a timed run."""
    repeats: int
    """Of each round that is timed by itself."""
    turns: int
    """Of all runs that are compared, there and back."""


def disagreement(target: Target, widths: Sequence[int], draws: int, company: int) -> list[Line]:
    """Choices of w columns in one forward against a chain of single ones, by width. First the chain against itself."""
    chains = [_chain(target, draw, max(widths)) for draw in range(draws)]
    again = [_chain(target, draw, max(widths)) for draw in range(draws)]
    report = probe(target, widths, rows=company)
    unknown = ("grade alone", f"grade of {report.rows}", *(f"admitted {mode}" for mode in (Mode.BITWISE, Mode.DECIDED)))
    lines = [_compared(0, chains, again) | dict.fromkeys(unknown, "–")]
    gates = {mode: Exactness(mode, report) for mode in (Mode.BITWISE, Mode.DECIDED)}
    for width in widths:
        blocks = [_block(target, draw, width) for draw in range(draws)]
        line = _compared(width, [chain[:, :width] for chain in chains], blocks)
        line |= {
            "grade alone": str(report.grade(width, 1)),
            f"grade of {report.rows}": str(report.grade(width, report.rows)),
        }
        line |= {f"admitted {mode}": gate.admits(width, report.rows) for mode, gate in gates.items()}
        lines.append(line)
    return lines


def _compared(width: int, chains: Sequence[mx.array], others: Sequence[mx.array]) -> Line:
    found = sum((compare(a, b) for a, b in zip(chains, others, strict=True)), Comparison())
    pairs = [(mx.argmax(a, axis=-1), mx.argmax(b, axis=-1)) for a, b in zip(chains, others, strict=True)]
    differing = sum(cast("int", mx.sum(a != b).item()) for a, b in pairs)
    return {
        "width": width or "chain again",
        "argmaxes": sum(a.size for a, _ in pairs),
        "differ": differing,
        "bytes differ %": 100 * found.differing / found.bytes,
        "largest": found.largest,
        "lead lost": found.margin,
    }


def _fill(target: Target, draw: int) -> None:
    target.truncate(0, 0)
    with target.verify([0], mx.array([prompt_ids(draw, SHORT, target.vocab)], mx.int32)) as seen:
        seen.keep([SHORT])
        mx.eval(seen.state)


def _chain(target: Target, draw: int, width: int) -> mx.array:
    """Logits [1, width, V], one column at a time."""
    _fill(target, draw)
    logits: list[mx.array] = []
    for token in block_ids(draw, width, target.vocab):
        with target.verify([0], mx.array([[token]], mx.int32)) as seen:
            seen.keep([1])
            mx.eval(seen.logits, seen.state)
        logits.append(seen.logits)
    target.truncate(0, 0)
    return mx.concatenate(logits, axis=1)


def _block(target: Target, draw: int, width: int) -> mx.array:
    """The same in one forward."""
    _fill(target, draw)
    with target.verify([0], mx.array([block_ids(draw, width, target.vocab)], mx.int32)) as seen:
        mx.eval(seen.logits, seen.state)
    target.truncate(0, 0)
    return seen.logits


def costs(subject: Subject, rows: int, widths: Sequence[int]) -> Iterator[Line]:
    """A round by width, without drafting: forward, choices, reading them, keeping half. Steps: the plain engine's."""
    plain = Timed(subject.target, None, subject.step).play(rows, subject.tokens)
    sampler = Sampler(subject.target.vocab, [])
    draws = [sampler.open(GREEDY, (0,)) for _ in range(rows)]
    _prefill(subject.target, rows)
    all_widths = [1, *widths]
    spent: dict[int, list[float]] = {width: [] for width in all_widths}
    for repeat in range(subject.repeats + 1):
        start = repeat % len(all_widths)
        for width in all_widths[start:] + all_widths[:start]:
            seconds = _round(subject.target, sampler, draws, width)
            if repeat:  # the first time also compiles
                spent[width].append(seconds)
        if repeat > 1 and subject.out_of_time():
            break
    single = statistics.median(spent[1])
    for width in all_widths:
        seconds = statistics.median(spent[width])
        yield {
            "rows": rows,
            "width": width,
            "ms": 1e3 * seconds,
            "plain steps": seconds / plain.tick,
            "of width 1": seconds / single,
            "spread %": 100 * (max(spent[width]) - min(spent[width])) / seconds,
            "plain ms": 1e3 * plain.tick,
        }


def _prefill(target: Target, rows: int) -> None:
    for slot in range(target.slots):
        target.truncate(slot, 0)
    ids = mx.array([prompt_ids(row, PROMPT, target.vocab) for row in range(rows)], mx.int32)
    with target.verify(range(rows), ids) as seen:
        seen.keep([PROMPT] * rows)
        mx.eval(seen.state)


def _round(target: Target, sampler: Sampler, draws: Sequence[Row], width: int) -> float:
    rows = len(draws)
    ids = mx.array([block_ids(row, width, target.vocab) for row in range(rows)], mx.int32)
    mx.eval(ids)
    begun = now()
    with target.verify(range(rows), ids) as seen:
        choice = sampler.choose(seen.logits, draws, [PROMPT] * rows)
        mx.eval(choice.tokens)
        choice.tokens.tolist()
        seen.keep([(width + 1) // 2] * rows)
        if target.recurrent:
            mx.eval(seen.state)  # a recurrent layer is run once more where a part is kept
    seconds = now() - begun
    if target.recurrent:
        return seconds
    for row in range(rows):
        target.truncate(row, PROMPT)
    return seconds


def learned(subject: Subject, rows: Sequence[int]) -> Budget:
    """A budget that has measured what a server measures at its start."""
    budget, drafter = Budget(), subject.drafted.drafter
    for slot in range(subject.target.slots):
        subject.target.truncate(slot, 0)
    seed(budget, subject.target, drafter.width + 1)
    rehearse(budget, subject.target, drafter, sorted({min(count, 8) for count in rows}), [2, drafter.width + 1])
    return budget


def speeds(subject: Subject, costs_of: Budget, rows: int, rights: Sequence[float]) -> Iterator[Line]:
    """Drafted over plain with the budget in charge: plain, each acceptance, and back again, after a warm-up."""
    target, drafted = subject.target, subject.drafted
    oracles = {right: Oracle(drafted, right, subject.step, target.vocab) for right in rights}
    budgets = {right: Budget(costs_of.tables) for right in rights}
    for right, budget in budgets.items():
        budget.adopt(drafted.drafter.kind, oracles[right].acceptance, drafted.drafter.width)

    def play(right: float | None, turn: int) -> Rate:
        how = None if right is None else _how(oracles[right], budgets[right])
        return Timed(target, how, subject.step).play(rows, subject.tokens, turn)

    for right in rights:
        play(right, 99)
    runs: dict[float | None, list[Rate]] = {right: [] for right in (None, *rights)}
    order: list[float | None] = [None, *rights]
    for turn in range(subject.turns):
        for right in [*order, *reversed(order)]:
            runs[right].append(play(right, turn))
            if subject.out_of_time() and all(runs.values()):
                break
    plain = statistics.median(run.per_second for run in runs[None])
    for right in rights:
        mine = [run.per_second for run in runs[right]]
        last = runs[right][-1]
        yield {
            "rows": rows,
            "right %": 100 * right,
            "plain tok/s": plain,
            "drafted tok/s": statistics.median(mine),
            "over plain": statistics.median(mine) / plain,
            "low": min(mine) / plain,
            "high": max(mine) / plain,
            "emitted a row and round": last.tokens / last.ticks / rows,
            "usual width": max(budgets[right].ticks, key=budgets[right].ticks.__getitem__),
            "strays": sum(run.strays for run in [*runs[right], *runs[None]]),
        }


def splits(subject: Subject, rows: int, widths: Sequence[int], right: float) -> Iterator[Line]:
    """Where a round's time goes, at fixed widths, beside the same rounds as they are."""
    for width in widths:
        if subject.out_of_time():
            return
        oracle = Oracle(subject.drafted, right, subject.step, subject.target.vocab)
        whole = Timed(subject.target, _how(oracle, None), subject.step).play(rows, subject.tokens, most=width - 1)
        apart = Split(subject.target, _how(oracle, None), subject.step).split(rows, subject.tokens, width - 1)
        parts = {name: 1e3 * getattr(apart, name) / apart.rounds for name in ("draft", "verify", "sync", "host")}
        yield {
            "rows": rows,
            "width": width,
            **{f"{name} ms": value for name, value in parts.items()},
            "sum ms": sum(parts.values()),
            "round ms": 1e3 * whole.tick,
            "right %": 100 * right,
            "emitted a row and round": whole.tokens / whole.ticks / rows,
            "tok/s": whole.per_second,
            "strays": whole.strays,
        }


def _how(oracle: Oracle, budget: Budget | None) -> How:
    return How({oracle.kind: oracle}, oracle.kind, budget=budget, companions=oracle.companions)
