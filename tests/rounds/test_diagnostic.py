"""The diagnostic over the real loop: exact tables, so the closed forms are known beforehand."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rounds.harness import Harness, Wanted
from rounds.oracle import Oracle
from rounds.table import TableTarget, constant
from stoker.acceptance.governor import Graded
from stoker.acceptance.select import Setting
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Sampling
from stoker.rounds.agreement import closed_forms
from stoker.rounds.base import Ask, Drafter, Proposal
from stoker.rounds.diagnostic import Diagnostic
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation as How

pytestmark = pytest.mark.mlx

TARGET = (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)
DRAFT = (1.4, 1.3, 0.2, 0.6, -0.3, -0.8)
PURE = Sampling(temperature=0.7, top_k=0, top_p=1.0, min_p=0.0, seed=5)
COUNT = 60


class Block(DraftModel):
    """The draft model under a block drafter's name, for which the table allows the argmax rule."""

    @property
    def kind(self) -> Kind:
        return Kind.DFLASH


@dataclass
class Ran:
    tokens: list[int]
    harness: Harness
    diagnostic: Diagnostic


def softmax(logits: tuple[float, ...], temperature: float = 0.7) -> np.ndarray:
    weights = np.exp(np.array(logits) / temperature)
    return weights / weights.sum()


def ran(rule: str, sampling: Sampling = PURE, drafter: Drafter | None = None) -> Ran:
    setting = {"stochastic": Setting.STOCHASTIC, "argmax": Setting.ARGMAX}.get(rule, Setting.MATCH)
    coupled = rule != "independent"
    target, model = TableTarget(constant(TARGET), 1), TableTarget(constant(DRAFT), 1)
    drafter = drafter or (Block if rule == "argmax" else DraftModel)(model, target, most=3)
    diagnostic = Diagnostic(coupled=coupled)
    harness = Harness(target, How({drafter.kind: drafter}, drafter.kind, setting, coupled, diagnostic=diagnostic))
    return Ran(harness.run([Wanted((0, 1), COUNT, sampling)])[0], harness, diagnostic)


def close(a: float, b: float) -> bool:
    return a == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize("rule", ["coupled", "independent", "stochastic", "argmax"])
def test_the_averages_are_the_closed_forms_of_the_requests_own_p(rule: str) -> None:
    it = ran(rule)
    expected = closed_forms(softmax(TARGET), softmax(DRAFT))
    assert all(close(a, b) for a, b in zip(it.diagnostic.total.mean, expected, strict=True))
    counters, total = it.harness.counters[0], it.diagnostic.total
    assert (total.positions, total.accepted) == (counters.tested, counters.accepted)
    assert total.positions > 10
    assert not total.violations
    if rule == "argmax":
        assert set(it.tokens) == {0}, "the stream is greedy although the forms are those of the request"


def test_penalties_change_the_p_that_the_argmax_rule_is_measured_against_too() -> None:
    penalised = replace(PURE, presence_penalty=0.5, repeat_last_n=-1)
    plain, other = ran("argmax").diagnostic.total.mean, ran("argmax", penalised).diagnostic.total.mean
    assert abs(plain.sum_min - other.sum_min) > 1e-3


def test_a_greedy_request_is_measured_too_and_its_forms_are_what_was_accepted() -> None:
    total = ran("coupled", replace(PURE, temperature=0.0)).diagnostic.total
    assert total.measured == total.mean.sum_prod == total.mean.coupled == total.mean.sum_min == 1.0


@pytest.mark.parametrize("rule", ["coupled", "stochastic"])
def test_it_changes_no_token(rule: str) -> None:
    target, model = TableTarget(constant(TARGET), 1), TableTarget(constant(DRAFT), 1)
    drafter = DraftModel(model, target, most=3)
    setting = Setting.STOCHASTIC if rule == "stochastic" else Setting.MATCH
    without = Harness(target, How({drafter.kind: drafter}, drafter.kind, setting))
    assert without.run([Wanted((0, 1), COUNT, PURE)])[0] == ran(rule).tokens


def test_prompt_lookups_q_is_one_hot_on_what_it_proposes() -> None:
    it = ran("coupled", drafter=Lookup(Sizes(most=3), Graded))
    p, mean = softmax(TARGET), it.diagnostic.total.mean
    assert it.diagnostic.total.positions > 5
    assert close(mean.sum_min, mean.sum_prod)
    assert close(mean.coupled, mean.sum_prod)
    assert p.min() - 1e-5 <= mean.sum_prod <= p.max() + 1e-5


def test_a_drafter_that_cannot_say_what_it_drew_from_is_not_measured() -> None:
    it = ran("coupled", drafter=Oracle({(0, 1): [0] * COUNT}, most=3, vocab=6))
    assert it.harness.counters[0].tested > 0
    assert it.diagnostic.total.positions == 0


class Boasting(DraftModel):
    """Claims more probability than there is."""

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        made = super().propose(asks)
        return [Proposal(it.tokens, None if it.q is None else it.q * 3) for it in made]


class Misshapen(DraftModel):
    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        made = super().propose(asks)
        return [Proposal(it.tokens, None if it.q is None else it.q[:, :4]) for it in made]


def other_drafter(kind: type[DraftModel]) -> DraftModel:
    return kind(TableTarget(constant(DRAFT), 1), TableTarget(constant(TARGET), 1), most=3)


def test_a_q_that_is_no_distribution_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        it = ran("coupled", drafter=other_drafter(Boasting))
    assert it.diagnostic.total.violations == it.diagnostic.total.positions > 0
    assert "ORDER VIOLATED at" in caplog.text


def test_a_q_of_the_wrong_size_costs_the_row_its_drafter_and_nothing_else() -> None:
    it = ran("coupled", drafter=other_drafter(Misshapen))
    assert len(it.tokens) == COUNT
    assert it.harness.outcomes[-1].off is DraftOff.FAULT


def test_each_request_is_logged_when_it_leaves(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ran("independent")
    (line,) = [r.getMessage() for r in caplog.records if "diagnostic" in r.getMessage()]
    assert line.startswith("request 0: [Speculative acceptance diagnostic] closed_form_sum_min=")
    assert "belongs at sum_prod" in line


def test_without_it_no_distribution_is_asked_for() -> None:
    asked: list[bool] = []

    class Watched(DraftModel):
        def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
            asked.extend(ask.drawing.with_q for ask in asks)
            return super().propose(asks)

    target, model = TableTarget(constant(TARGET), 1), TableTarget(constant(DRAFT), 1)
    drafter = Watched(model, target, most=3)
    Harness(target, How({drafter.kind: drafter}, drafter.kind)).run([Wanted((0, 1), COUNT, PURE)])
    assert set(asked) == {False}
    target, model = TableTarget(constant(TARGET), 1), TableTarget(constant(DRAFT), 1)
    asked.clear()
    ran("coupled", drafter=Watched(model, target, most=3))
    assert set(asked) == {True}
