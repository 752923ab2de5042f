import math
from itertools import product

import pytest

from stoker.acceptance.closed_forms import Averages, ClosedForms, Form, form_of
from stoker.acceptance.proposals import Proposals, proposals
from stoker.acceptance.select import Rule
from stoker.core.counters import Kind

FORMS = ClosedForms(sum_min=0.75, sum_prod=0.25, coupled=0.5, argmax=0.9)


def test_the_averages_are_those_of_the_positions() -> None:
    averages = Averages()
    averages.add(FORMS, accepted=True)
    averages.add(ClosedForms(0.25, 0.25, 0.25, 0.1), accepted=False)
    assert averages.mean == ClosedForms(0.5, 0.25, 0.375, 0.5)
    assert (averages.positions, averages.accepted, averages.measured) == (2, 1, 0.5)
    assert averages.violations == 0


def test_the_error_of_a_rate_is_the_binomial_one_where_all_positions_are_alike() -> None:
    averages = Averages()
    for n in range(400):
        averages.add(FORMS, accepted=n % 2 == 0)
    assert averages.error(Form.COUPLED) == pytest.approx(math.sqrt(0.5 * 0.5 / 400))
    assert averages.error(Form.SUM_PROD) == pytest.approx(math.sqrt(0.25 * 0.75 / 400))


def test_nothing_tested_is_zeros_and_no_error() -> None:
    empty = Averages()
    assert empty.mean == ClosedForms(0, 0, 0, 0)
    assert (empty.measured, empty.error(Form.SUM_MIN)) == (0, 0)


@pytest.mark.parametrize(
    "forms",
    [
        FORMS._replace(sum_prod=0.6),
        FORMS._replace(coupled=0.8),
        FORMS._replace(sum_min=1.1),
        FORMS._replace(coupled=float("nan")),
        FORMS._replace(sum_min=float("nan")),
    ],
)
def test_a_violated_order_is_counted(forms: ClosedForms) -> None:
    averages = Averages()
    averages.add(FORMS, accepted=True)
    averages.add(forms, accepted=True)
    assert averages.violations == 1


def test_what_float32_rounds_away_violates_nothing() -> None:
    assert ClosedForms(1.0 - 2e-4, 1.0 - 2e-4, 1.0, 1.0).ordered


def test_every_rule_belongs_at_the_form_that_the_specification_gives_it() -> None:
    expected = {
        (Rule.MATCH, Proposals.COUPLED): Form.COUPLED,
        (Rule.MATCH, Proposals.INDEPENDENT): Form.SUM_PROD,
        (Rule.MATCH, Proposals.ONE_HOT): Form.SUM_PROD,
        (Rule.MATCH_WITHOUT_Q, Proposals.COUPLED): Form.COUPLED,
        (Rule.STOCHASTIC, Proposals.INDEPENDENT): Form.SUM_MIN,
        (Rule.ARGMAX, Proposals.COUPLED): Form.ARGMAX,
        (Rule.GREEDY, Proposals.ONE_HOT): Form.SUM_PROD,
    }
    assert {pair: form_of(*pair) for pair in expected} == expected


@pytest.mark.parametrize(("kind", "rule", "coupled"), list(product(Kind, Rule, (True, False))))
def test_proposals_are_named_by_what_chance_they_share(kind: Kind, rule: Rule, coupled: bool) -> None:
    said = proposals(kind, rule, coupled=coupled)
    if kind is Kind.PROMPT_LOOKUP or rule is Rule.GREEDY:
        assert said is Proposals.ONE_HOT
    elif rule is Rule.STOCHASTIC or not coupled:
        assert said is Proposals.INDEPENDENT
    else:
        assert said is Proposals.COUPLED
