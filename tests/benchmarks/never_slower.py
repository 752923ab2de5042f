"""`make never-slower`: a drafter whose every proposal is a random token, against plain decoding, alternated.

The promise of the budget (spec/speculative-acceptance.md, issue 4): never below 0.97 of plain decoding. Engine and
model are real (SmolLM2), the drafter alone is made up: it is the worst that there can be, and nothing else is in
the way. Not a test: times on a shared machine are no reason to fail.

Usage: python tests/benchmarks/never_slower.py [--rows 1,8] [--tokens 256] [--pairs 3]
"""

# ruff: noqa: T201, E402  a script that prints, and OpenBLAS must be loaded before MLX
import argparse
import os
import random
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from stoker import blas

print(blas.load().line, file=sys.stderr)

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from rounds.harness import GREEDY, Harness, Wanted
from rounds.oracle import Learned, Oracle, OracleSession
from stoker.core import clock
from stoker.models.fetch import cache_directory, default_model
from stoker.models.load import load
from stoker.models.target import Target
from stoker.rounds.assembly import seed
from stoker.rounds.base import Needs, Opening, Proposal
from stoker.rounds.budget import Budget
from stoker.rounds.evidence import Acceptance
from stoker.rounds.speculator import Speculation as How

WIDTH = 8
PROMPT = 100


@dataclass
class Random(Oracle):
    """As drafters with a network are: costs of its own, and one account of its acceptance for all requests."""

    acceptance: Acceptance = field(default_factory=Acceptance.of_all)

    @property
    def needs(self) -> Needs:
        return Needs(forwards=True)

    def open(self, opening: Opening) -> Learned:
        own = Acceptance(general=self.acceptance)
        return Learned(opening.prompt, (), random.Random(opening.id), opening.most, acceptance=own)

    def _draft(self, session: OracleSession, limit: int) -> Proposal:
        return Proposal([session.rng.randrange(self.vocab) for _ in range(min(limit, self.most))])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1,8")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    counts = [int(rows) for rows in args.rows.split(",")]
    target = Target(
        load(str(default_model(cache_directory(os.environ)))).model, max(counts), PROMPT + args.tokens + WIDTH
    )
    with tqdm(total=len(counts) * args.pairs * 2, unit="run", file=sys.stderr) as bar:
        for rows in counts:
            how = _new(target)
            ratios = [_pair(target, how, rows, args.tokens, pair, bar) for pair in range(args.pairs)]
            low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
            bar.clear()
            print(
                f"{rows} rows, {args.tokens} tokens each: {middle:.3f} ({low:.3f}-{high:.3f}) of plain decoding; "
                f"{ratios[0]:.3f} in the first pair, when nothing was known of the drafter"
            )
    return 0


def _new(target: Target) -> How:
    """A server that has just been started for the first time with this drafter."""
    budget = Budget()
    seed(budget, target, WIDTH)
    drafter = Random({}, most=WIDTH - 1, vocab=target.vocab)
    budget.adopt(drafter.kind, drafter.acceptance, drafter.most)
    return How({drafter.kind: drafter}, drafter.kind, budget=budget)


def _pair(target: Target, how: How, rows: int, tokens: int, pair: int, bar: "tqdm[NoReturn]") -> float:
    """Plain seconds over drafted seconds; the order changes from pair to pair. The tokens must be the same."""
    spent: dict[bool, float] = {}
    said: dict[bool, dict[int, list[int]]] = {}
    rng = random.Random(pair)
    wanted = [Wanted(tuple(rng.randrange(100, 40000) for _ in range(PROMPT)), tokens, GREEDY) for _ in range(rows)]
    for drafted in (False, True) if pair % 2 else (True, False):
        for slot in range(target.slots):
            target.truncate(slot, 0)
        harness = Harness(target, how if drafted else None)
        begun = clock.now()
        said[drafted] = harness.run(wanted)
        spent[drafted] = clock.now() - begun
        bar.update()
    if said[False] != said[True]:
        differing = sum(said[False][row] != said[True][row] for row in range(rows))
        print(
            f"pair {pair}: {differing} of {rows} texts differ (near-ties of the float32 width grade)", file=sys.stderr
        )
    return spent[False] / spent[True]


if __name__ == "__main__":
    sys.exit(main())
