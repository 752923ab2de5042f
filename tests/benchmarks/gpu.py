"""Drafting on a GPU, with random weights in published shapes: what rounds cost, what they win, where the time goes.

    python tests/benchmarks/gpu.py --part qwen3-8b-bf16,qwen3-8b-4bit --seconds 500

Needs MLX with a GPU backend for the large shapes; `--part tiny-bf16` runs the same code anywhere. Target and
drafter are real networks, engine and budget are Stoker's own; only what the drafter proposes is replaced by an
oracle (`gpu_play.py`). Prints Markdown as it goes; with $OUT set, writes $OUT/gpu-PART.json too.

Tables of a part: (d) block against chain, on weights as mlx makes them; then the target is made decided
(`gpu_shapes.decide`), and (b) the cost of a round by width, (c) the split of a round, (a) drafted over plain.
Every width is used here, whatever (d) finds (`--exactness off`).
"""

# ruff: noqa: T201  a script that prints
import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import cast

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import gpu_measure
from benchmarks.gpu_measure import Line, Subject
from benchmarks.gpu_shapes import SHAPES, build, decide
from stoker.core.clock import now
from stoker.models.target import Target

COLUMNS = 1280
"""Of a slot: prompts that fill a window of 1,024 fit, for the exactness probe."""
TABLES = "dbca"
TYPE = mx.bfloat16


@dataclass(frozen=True)
class Part:
    rows: tuple[int, ...]
    rights: tuple[float, ...]
    widths: tuple[int, ...]
    apart: tuple[int, ...]
    """Widths of rounds that are taken apart."""
    shape: str = ""
    bits: int = 0
    columns: int = COLUMNS
    tokens: int = 256
    repeats: int = 8
    draws: int = 8
    turns: int = 1


def _parts() -> dict[str, Part]:
    block = Part((1, 4, 16), (0.5, 0.7, 0.9), tuple(range(2, 17)), (4, 16))
    mtp = Part((1, 4), (0.6, 0.8), tuple(range(2, 7)), (3, 6))
    small = Part((1, 2), (0.8,), (2, 6), (6,), columns=128, tokens=64, repeats=2, draws=2)
    kinds = {"qwen3-8b": block, "qwen3.5-4b": block, "gemma4-12b": mtp, "qwen3.5-27b": mtp}
    kinds |= {shape: small for shape in SHAPES if shape.startswith("tiny")}
    return {
        f"{shape}-{'4bit' if bits else 'bf16'}": replace(part, shape=shape, bits=bits)
        for shape, part in kinds.items()
        for bits in (0, 4)
    }


PARTS = _parts()


class Report:
    """Prints each line of a table when it is there, and keeps all of them."""

    def __init__(self, part: str) -> None:
        self.part, self.begun = part, now()
        self.tables: dict[str, list[Line]] = {}
        self.facts: Line = {}

    def say(self, text: str) -> None:
        print(f"[{now() - self.begun:6.1f} s] {self.part}: {text}", flush=True)

    def table(self, title: str, lines: Iterable[Line]) -> None:
        mine = self.tables.setdefault(title, [])
        for line in lines:
            if not mine:
                print(f"\n**{self.part}: {title}**\n\n| {' | '.join(line)} |\n|{'---|' * len(line)}", flush=True)
            mine.append(line)
            print(f"| {' | '.join(_cell(value) for value in line.values())} |", flush=True)

    def attempt(self, table: str, make: Callable[[], None]) -> None:
        """Makes a table; what a backend cannot do for it is reported, and the other tables may still be made."""
        try:
            make()
        except (RuntimeError, ValueError):
            self.say(f"table ({table}) failed:\n{traceback.format_exc()}")
        place = os.environ.get("OUT")
        if place:
            facts = {"part": self.part, **self.facts, "peak GB": mx.get_peak_memory() / 1e9}
            text = json.dumps({**facts, "tables": self.tables}, indent=1)
            Path(place, f"gpu-{self.part}.json").write_text(text + "\n", "utf-8")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="tiny-bf16", help=f"one or more, comma between: {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=500, help="after so long nothing new is begun")
    parser.add_argument("--tables", default=TABLES, help="which, and in what order (default: %(default)s)")
    args = parser.parse_args(arguments)
    names = args.part.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]}: {', '.join(PARTS)} are known")
    begun = now()
    for n, name in enumerate(names):
        until = begun + args.seconds * (n + 1) / len(names)
        if now() < until:
            run(name, until, args.tables)
        mx.clear_cache()
    return 0


def run(name: str, until: float, tables: str) -> None:
    """One part; what is not begun by `until` is left out, and said so."""
    part, report = PARTS[name], Report(name)
    pair = SHAPES[part.shape]
    model = build(pair.family, pair.config, TYPE, part.bits)
    report.facts = {"weights GB": _size(model), "mlx": version("mlx"), "device": _device()}
    report.say(f"{_size(model):.2f} GB of weights on {mx.default_device()}, mlx {version('mlx')}")
    target = Target(model, max(part.rows), part.columns)
    if "d" in tables:
        report.attempt("d", lambda: _exactness(part, target, report))
    step = decide(model, pair.family, pair.config, TYPE, part.bits)
    drafted = pair.make(target, pair.draft, TYPE)
    report.facts["drafter GB"] = _size(drafted.net)
    report.say(f"decided; its {drafted.drafter.kind} drafter has {_size(drafted.net):.2f} GB of weights of its own")
    subject = Subject(target, drafted, step, lambda: now() > until, part.tokens, part.repeats, part.turns)
    for table in tables.replace("d", ""):
        report.attempt(table, lambda table=table: _table(table, part, subject, report))
    report.say(f"done; peak memory {mx.get_peak_memory() / 1e9:.1f} GB")


def _size(net: nn.Module) -> float:
    """GB of weights."""
    return sum(array.nbytes for _, array in cast("list[tuple[str, mx.array]]", tree_flatten(net.parameters()))) / 1e9


def _device() -> Line:
    return {str(key): str(value) for key, value in mx.device_info().items()}


def _exactness(part: Part, target: Target, report: Report) -> None:
    found = gpu_measure.disagreement(target, part.widths, part.draws, min(4, max(part.rows)))
    report.table("(d) block against chain, undecided weights", found)


def _table(table: str, part: Part, subject: Subject, report: Report) -> None:
    budget = gpu_measure.learned(subject, part.rows) if table == "a" else None
    for rows in part.rows:
        if subject.out_of_time():
            report.say(f"no time left for table ({table}) of {rows} rows")
            return
        if table == "b":
            found = gpu_measure.costs(subject, rows, part.widths)
            report.table("(b) a verify round by width, in steps of the plain engine", found)
        elif table == "c":
            found = gpu_measure.splits(subject, rows, part.apart, part.rights[len(part.rights) // 2])
            report.table("(c) where a drafted round's time goes", found)
        elif budget is not None:
            report.table("(a) drafted over plain", gpu_measure.speeds(subject, budget, rows, part.rights))


if __name__ == "__main__":
    sys.exit(main())
