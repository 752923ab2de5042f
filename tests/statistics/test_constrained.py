"""Under a grammar the emitted stream follows p restricted to what is allowed, whatever the rule; and a wrong cut shows.

Settings and cut as in `test_distribution.py`, for three allowed tokens: 2 degrees of freedom, alpha = 1e-4.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import pytest

from rounds.harness import Harness, Wanted
from rounds.table import TableTarget, constant
from stoker.acceptance.select import Rule, Setting
from stoker.core.request import Grammar, Sampling
from stoker.rounds import speculator
from stoker.rounds.base import Proposal
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.row import Row
from stoker.rounds.speculator import Speculation as How
from stoker.text.grammar import Grammars

pytestmark = pytest.mark.mlx

TARGET = (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)
DRAFT = (1.4, 1.3, 0.2, 0.6, -0.3, -0.8)
PURE = Sampling(temperature=0.7, top_k=0, top_p=1.0, min_p=0.0)
SAMPLES, ROWS, LENGTH = 12_000, 16, 50
ALLOWED = 3
CUT = 18.4207


@dataclass(frozen=True)
class Six:
    """Six letters, none of which ends an answer."""

    pieces: list[bytes] = field(default_factory=lambda: [bytes((97 + n,)) for n in range(6)])
    hidden: frozenset[int] = frozenset()
    end_ids: frozenset[int] = frozenset()

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return [ord(char) - 97 for char in text]


GRAMMARS = Grammars(Six())


def constrained(samples: int, rule: str, grammar: str = "root ::= [a-c]*") -> tuple[list[list[int]], Harness]:
    setting = Setting.STOCHASTIC if rule == "stochastic" else Setting.MATCH
    target, model = TableTarget(constant(TARGET), ROWS), TableTarget(constant(DRAFT), ROWS)
    drafter = DraftModel(model, target, most=3)
    how = How({drafter.kind: drafter}, drafter.kind, setting, coupled=rule != "independent")
    harness, rows = Harness(target, how, grammars=GRAMMARS), list[list[int]]()
    while sum(map(len, rows)) < samples:
        wanted = [
            Wanted((n % 6,), LENGTH, replace(PURE, seed=len(rows) + n), grammar=Grammar(grammar)) for n in range(ROWS)
        ]
        rows += harness.run(wanted).values()
    return rows, harness


def misfit(rows: Sequence[Sequence[int]]) -> float:
    """Pearson's chi-square against p renormalised over the allowed tokens."""
    weights = np.exp(np.array(TARGET[:ALLOWED]) / PURE.temperature)
    tokens = [token for row in rows for token in row]
    counts, expected = Counter(tokens), weights / weights.sum() * len(tokens)
    return sum((counts[n] - expected[n]) ** 2 / expected[n] for n in range(ALLOWED))


@pytest.mark.parametrize("rule", ["coupled", "independent", "stochastic"])
def test_a_constrained_stream_follows_the_restricted_distribution(rule: str) -> None:
    rows, harness = constrained(SAMPLES, rule)
    assert {token for row in rows for token in row} == set(range(ALLOWED))
    assert misfit(rows) < CUT
    judged = {outcome.rule for outcome in harness.outcomes if outcome.round is not None}
    assert judged == {Rule.STOCHASTIC if rule == "stochastic" else Rule.MATCH}


def test_the_first_forbidden_proposal_must_be_judged_under_modified_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(row: Row, made: Proposal) -> Proposal:
        made = made.on_host()
        assert row.draws.constraint is not None
        return made.first(row.draws.constraint.allowed(cast("Sequence[int]", made.tokens)))

    monkeypatch.setattr(speculator, "_usable", cut)
    rows, _ = constrained(SAMPLES, "stochastic")
    assert misfit(rows) > CUT
