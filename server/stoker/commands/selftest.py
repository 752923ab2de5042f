"""`stoker selftest`: shows, on the model in use, that drafting does not change what the model says.

For every drafter and every rule that judges it: the emitted tokens against the target's own distribution
(chi-square at alpha = 1e-4), none outside the support, and the tokens of plain decoding where those are promised.
The power column says how sure the test is to notice a named wrong rule; `--inject` runs one, which must fail.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tqdm import tqdm

from stoker.core import clock
from stoker.core.build import build_info
from stoker.core.errors import StartError
from stoker.models import detect, fetch
from stoker.options.drafting import EXACTNESS

TEXT = "The house has a garden. The house has a garden"
"""Its end stands in it before, so that prompt lookup proposes; what follows is open: there is much to compare."""
WRONG = ("argmax", "resample-p")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--model", default="", metavar="PATH", help="a .gguf file or a model directory (default: SmolLM2)"
    )
    parser.add_argument(
        "--draft-model", default="", metavar="PATH", help="default: the first two thirds of the model's own layers"
    )
    parser.add_argument("--rows", type=_count, default=16, metavar="N", help="requests at a time (default: 16)")
    parser.add_argument(
        "--samples", type=_count, default=1000, metavar="N", help="requests for each distribution (default: 1000)"
    )
    parser.add_argument(
        "--seconds", type=float, default=240.0, metavar="S", help="fewer samples if it would take longer (default: 240)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first request (default: 1)")
    parser.add_argument("--inject", choices=WRONG, default="", help="run this wrong rule instead: the test must fail")
    parser.add_argument(
        "--exactness", choices=EXACTNESS, default="decided", help="what a wide forward must reach (default: decided)"
    )
    parser.add_argument("--json", default="", metavar="FILE", help="write everything to FILE")


def run(arguments: argparse.Namespace, environ: Mapping[str, str] = MappingProxyType({})) -> int:
    """The exit status: 1 if a check failed. StartError if there is no model to test."""
    # MLX is imported here, so that the command line's help does without it.
    from stoker.commands import selftest_report as report
    from stoker.commands.selftest_run import Budget, Choice, examine, prepare

    begun = clock.now()
    cache = fetch.cache_directory(environ)
    path = Path(arguments.model).expanduser() if arguments.model else fetch.default_model(cache)
    detect.require_whole(path)
    choice = Choice(str(path), arguments.draft_model, arguments.rows, arguments.exactness)
    prepared = prepare(choice, TEXT, cache)
    budget = Budget(arguments.samples, begun, arguments.seconds)
    with tqdm(unit="request", file=sys.stderr, disable=None) as bar:
        results = examine(prepared.subject, budget, bar, seed=arguments.seed, inject=arguments.inject)
    seconds = clock.now() - begun
    print(report.table(results))
    for note in (*prepared.notes, *report.notes(results)):
        print(f"note: {note}")
    print(report.verdict(results, seconds))
    if arguments.json:
        _write(Path(arguments.json), report.as_json(results, _facts(arguments, path.name, seconds)))
    return 0 if all(result.passed for result in results) else 1


def _facts(arguments: argparse.Namespace, model: str, seconds: float) -> dict[str, Any]:
    return {
        "stoker": build_info(),
        "model": model,
        "draft_model": arguments.draft_model or None,
        "rows": arguments.rows,
        "seed": arguments.seed,
        "inject": arguments.inject or None,
        "seconds": round(seconds, 1),
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise StartError(f"cannot write {path}: {error.strerror or error}") from error


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number
