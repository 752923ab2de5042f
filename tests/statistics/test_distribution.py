"""The mission's regression guards, on the real loop: the emitted stream follows p, exactly.

Figures of the document (spec/speculative-acceptance.md, "Regression guards"; spec/scheduler.md
section 16): six tokens at temperature 0.7, 12,000 emitted tokens, Pearson's chi-square with 5
degrees of freedom, rejected above 25.7448 (alpha = 1e-4). `STOKER_SPEC_DIST_SAMPLES` or
`MLXCEL_SPEC_DIST_SAMPLES` scales the count.
"""

import math
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from rounds.harness import Harness, Wanted
from rounds.table import TableTarget, constant
from stoker.acceptance.select import Rule, Setting
from stoker.acceptance.verdict import Verdict
from stoker.core.counters import Kind
from stoker.core.request import Sampling
from stoker.models import rejection
from stoker.rounds import step
from stoker.rounds.base import Features, Opening
from stoker.rounds.draft_model import DraftModel, ModelSession
from stoker.rounds.speculator import Speculation as How

pytestmark = pytest.mark.mlx

TARGET = (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)
DRAFT = (1.4, 1.3, 0.2, 0.6, -0.3, -0.8)
TEMPERATURE = 0.7
CUT = 25.7448
SAMPLES = int(os.environ.get("STOKER_SPEC_DIST_SAMPLES", os.environ.get("MLXCEL_SPEC_DIST_SAMPLES", "12000")))
POWER_SAMPLES = 4000
ROWS, LENGTH = 16, 50

PURE = Sampling(temperature=TEMPERATURE, top_k=0, top_p=1.0, min_p=0.0)


def probabilities(logits: tuple[float, ...], temperature: float = TEMPERATURE) -> np.ndarray:
    weights = np.exp(np.array(logits) / temperature)
    return weights / weights.sum()


class Dflash(DraftModel):
    """The same drafter under a block drafter's name, for which the table allows the argmax rule."""

    @property
    def kind(self) -> Kind:
        return Kind.DFLASH


def stream(
    samples: int, *, rule: str = "coupled", sampling: Sampling = PURE, table: mx.array | None = None, seed: int = 0
) -> tuple[list[list[int]], Harness]:
    """At least `samples` emitted tokens in rows of 16, each with its own seed, and the last harness."""
    rows: list[list[int]] = []
    setting = {"stochastic": Setting.STOCHASTIC, "argmax": Setting.ARGMAX}.get(rule, Setting.MATCH)
    target = TableTarget(constant(TARGET) if table is None else table, ROWS)
    model = TableTarget(constant(DRAFT), ROWS)
    drafter = (Dflash if rule == "argmax" else DraftModel)(model, target, most=3)
    harness = Harness(target, How({drafter.kind: drafter}, drafter.kind, setting, coupled=rule != "independent"))
    while sum(map(len, rows)) < samples:
        wanted = [Wanted((n % 6,), LENGTH, replace(sampling, seed=seed + len(rows) + n)) for n in range(ROWS)]
        rows += harness.run(wanted).values()
    assert all(counters.rounds for counters in harness.counters.values())
    return rows, harness


def chi_square(tokens: list[int], p: np.ndarray) -> float:
    counts = Counter(tokens)
    n = len(tokens)
    return sum((counts[x] - n * p[x]) ** 2 / (n * p[x]) for x in range(len(p)))


def rules(harness: Harness) -> set[str]:
    """The rules that judged the rounds."""
    return {outcome.rule for outcome in harness.outcomes if outcome.round is not None}


def flat(rows: list[list[int]]) -> list[int]:
    return [token for row in rows for token in row]


@pytest.mark.parametrize("rule", ["coupled", "independent", "stochastic"])
def test_speculative_stream_matches_the_target_distribution(rule: str) -> None:
    rows, harness = stream(SAMPLES, rule=rule)
    assert chi_square(flat(rows), probabilities(TARGET)) < CUT
    assert rules(harness) == {Rule.STOCHASTIC if rule == "stochastic" else Rule.MATCH}


def test_chi_square_rejects_known_wrong_acceptance_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = stream(POWER_SAMPLES, rule="argmax")
    assert chi_square(flat(rows), probabilities(TARGET)) > CUT
    right, _ = stream(POWER_SAMPLES, rule="stochastic")
    assert chi_square(flat(right), probabilities(TARGET)) < CUT

    def from_p(p: mx.array, q: mx.array | None, draft: mx.array, seed: int, start: int) -> rejection.Terms:
        """Resamples from p instead of the residual."""
        honest = rejection.terms(p, q, draft, seed, start)
        return honest._replace(choices=rejection.terms(p, mx.zeros_like(p[:-1]), draft, seed, start).choices)

    monkeypatch.setattr(step, "terms", from_p)
    wrong, _ = stream(POWER_SAMPLES, rule="stochastic")
    assert chi_square(flat(wrong), probabilities(TARGET)) > CUT


@pytest.mark.parametrize("rule", ["coupled", "independent", "stochastic"])
def test_filtered_target_support_is_never_violated(rule: str) -> None:
    rows, _ = stream(SAMPLES // 2, rule=rule, sampling=replace(PURE, top_k=2))
    assert set(flat(rows)) == {0, 1}


@pytest.mark.parametrize("rule", ["coupled", "independent", "stochastic", "argmax"])
def test_temperature_zero_stream_is_byte_identical_to_greedy_target_only(rule: str) -> None:
    rng = np.random.default_rng(1)
    table = mx.array(rng.normal(size=(6, 6)), mx.float32)
    rows, harness = stream(ROWS * LENGTH, rule=rule, sampling=replace(PURE, temperature=0.0), table=table)
    best = np.argmax(np.array(table), axis=-1)
    for n, row in enumerate(rows):
        token = n % 6
        for emitted in row:
            token = int(best[token])
            assert emitted == token
    assert rules(harness) == {Rule.GREEDY}


@pytest.mark.parametrize("rule", ["coupled", "independent", "stochastic"])
def test_every_transition_of_a_markov_target_fits_too(rule: str) -> None:
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(6, 6)) * 1.5
    rows, _ = stream(SAMPLES, rule=rule, table=mx.array(logits, mx.float32), seed=900)
    total = 0.0
    for last in range(6):
        nexts = [b for row in rows for a, b in pairwise(row) if a == last]
        total += chi_square(nexts, probabilities(tuple(logits[last])))
    assert total < 67.0, "30 degrees of freedom, alpha = 1e-4"


@dataclass(slots=True)
class WatchedSession(ModelSession):
    """Checks the draft cache after every round and remembers what was owed."""

    owed_after: list[int] = field(default_factory=list)

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        ModelSession.observe(self, verdict, proposed, features)
        assert self.model.lengths[self.slot] == self.held
        assert self.held + len(self.owed) == len(self.tokens)
        self.owed_after.append(len(self.owed))


class WatchedModel(DraftModel):
    sessions: tuple[WatchedSession, ...] = ()

    def open(self, opening: Opening) -> WatchedSession:
        s = super().open(opening)
        session = WatchedSession(s.model, s.slot, s.tokens, s.draws, s.most, s.held, s.acceptance, s.left)
        self.sessions = (*self.sessions, session)
        return session


PEAKED = [[30.0 * (b == (a + 1) % 6) for b in range(6)] for a in range(6)]
OFF = [[30.0 * (b == (a + 2) % 6) for b in range(6)] for a in range(6)]


@pytest.mark.parametrize(
    ("draft", "regime", "owed"),
    [(OFF, "all rejected", {1}), (PEAKED, "all accepted", {2}), ([list(DRAFT)] * 6, "mixed", {1, 2})],
    ids=["all rejected", "all accepted", "mixed"],
)
def test_draft_cache_tracks_the_emitted_sequence_in_every_acceptance_regime(
    draft: list[list[float]], regime: str, owed: set[int]
) -> None:
    table = constant(TARGET) if regime == "mixed" else mx.array(PEAKED, mx.float32)
    target, model = TableTarget(table, 1), TableTarget(mx.array(draft, mx.float32), 1)
    drafter = WatchedModel(model, target, most=3)
    harness = Harness(target, How({drafter.kind: drafter}, drafter.kind))
    for count in range(2, 24):
        sampling = replace(PURE, seed=count) if regime == "mixed" else replace(PURE, temperature=0.0)
        harness.run([Wanted((0, 1), count, sampling)])
        assert target.lengths[0] == 2 + count - 1, "the main cache is exact"
        assert model.lengths[0] <= target.lengths[0]
    whole = {n for session in drafter.sessions for n in session.owed_after[:-1]}
    assert whole == owed, "only a fully accepted round owes its last proposal besides the anchor"


def test_a_fully_accepted_round_owes_its_last_proposal_and_the_next_round_pays_it() -> None:
    target, model = TableTarget(mx.array(PEAKED, mx.float32), 1), TableTarget(mx.array(PEAKED, mx.float32), 1)
    drafter = WatchedModel(model, target, most=3)
    harness = Harness(target, How({drafter.kind: drafter}, drafter.kind))
    tokens = harness.run([Wanted((0, 1), 17, replace(PURE, temperature=0.0))])[0]
    (session,) = drafter.sessions
    assert tokens == [(2 + n) % 6 for n in range(17)]
    assert session.owed_after[:-1] == [2] * (len(session.owed_after) - 1)
    assert harness.counters[0].accepted == harness.counters[0].proposed


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_the_measured_acceptance_sits_at_the_closed_form_of_its_rule(temperature: float) -> None:
    p, q = probabilities(TARGET, temperature), probabilities(DRAFT, temperature)
    coupled = sum(1 / sum(max(p[y] / p[x], q[y] / q[x]) for y in range(6)) for x in range(6))
    forms = {"coupled": coupled, "independent": float(p @ q), "stochastic": float(np.minimum(p, q).sum())}
    assert forms["independent"] < forms["coupled"] < forms["stochastic"]
    for rule, expected in forms.items():
        tested = accepted = 0
        for part in range(4):
            _, harness = stream(
                ROWS * LENGTH, rule=rule, sampling=replace(PURE, temperature=temperature), seed=5000 * part
            )
            tested += sum(c.tested for c in harness.counters.values())
            accepted += sum(c.accepted for c in harness.counters.values())
        spread = math.sqrt(expected * (1 - expected) / tested)
        assert accepted / tested == pytest.approx(expected, abs=4 * spread), rule
