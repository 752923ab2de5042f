"""The closed forms against their definitions, and against draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stoker.rounds.agreement import closed_forms, coupled

SIZE = 12
WEIGHTS = arrays(np.float64, SIZE, elements=st.floats(0, 1).map(lambda x: 0.0 if x < 0.2 else x))


def by_definition(p: np.ndarray, q: np.ndarray) -> float:
    """sum_x 1 / sum_y max(p_y/p_x, q_y/q_x), in O(V²)."""
    both = [x for x in range(len(p)) if p[x] > 0 and q[x] > 0]
    return sum(1 / sum(max(p[y] / p[x], q[y] / q[x]) for y in range(len(p))) for x in both)


def distribution(rng: np.random.Generator, size: int, zeros: float = 0.0) -> np.ndarray:
    weights = np.exp(rng.normal(size=size) * 2) * (rng.random(size) >= zeros)
    weights[0] += 1e-3
    return weights / weights.sum()


@settings(max_examples=300, deadline=None)
@given(WEIGHTS, WEIGHTS)
def test_the_sorted_form_equals_the_definition(p: np.ndarray, q: np.ndarray) -> None:
    if p.sum() and q.sum():
        p, q = p / p.sum(), q / q.sum()
        assert coupled(p, q) == pytest.approx(by_definition(p, q), abs=1e-12)
        forms = closed_forms(p, q)
        assert forms.sum_prod <= forms.coupled + 1e-12
        assert forms.coupled <= forms.sum_min + 1e-12
        total_variation = 1 - forms.sum_min
        assert forms.coupled >= (1 - total_variation) / (1 + total_variation) - 1e-12


def test_ties_of_the_ratio_do_not_matter() -> None:
    p, q = np.array([0.2, 0.2, 0.1, 0.1, 0.4]), np.array([0.1, 0.1, 0.05, 0.05, 0.7])
    assert coupled(p, q) == pytest.approx(by_definition(p, q), abs=1e-15)


def test_equal_distributions_always_agree_when_they_share_their_noise() -> None:
    p = distribution(np.random.default_rng(0), 1000)
    forms = closed_forms(p, p)
    assert forms.coupled == pytest.approx(1.0)
    assert forms.sum_min == pytest.approx(1.0)
    assert forms.sum_prod == pytest.approx(float((p**2).sum()))


def test_for_a_certain_proposal_all_lossless_forms_are_its_probability() -> None:
    p = distribution(np.random.default_rng(1), 50)
    for d in (0, 17, 49):
        q = np.eye(50)[d]
        forms = closed_forms(p, q)
        assert (forms.sum_min, forms.sum_prod) == pytest.approx((p[d], p[d]))
        assert forms.coupled == pytest.approx(p[d])


def test_nothing_in_common_is_never_accepted() -> None:
    forms = closed_forms(np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.5, 0.5]))
    assert (forms.sum_min, forms.sum_prod, forms.coupled, forms.argmax) == (0, 0, 0, 0)


def test_the_argmax_form_is_what_the_drafter_gives_the_targets_best_token() -> None:
    assert closed_forms(np.array([0.3, 0.5, 0.2]), np.array([0.1, 0.2, 0.7])).argmax == 0.2


def test_draws_agree_as_often_as_the_forms_say() -> None:
    rng, n = np.random.default_rng(2), 40_000
    p, q = distribution(rng, 30, zeros=0.2), distribution(rng, 30, zeros=0.2)
    forms = closed_forms(p, q)
    shared, own = rng.gumbel(size=(n, 30)), rng.gumbel(size=(n, 30))
    with np.errstate(divide="ignore"):
        drawn = np.argmax(np.log(p) + shared, axis=1)
        together, apart = np.argmax(np.log(q) + shared, axis=1), np.argmax(np.log(q) + own, axis=1)
    for rate, form in ((np.mean(drawn == together), forms.coupled), (np.mean(drawn == apart), forms.sum_prod)):
        assert rate == pytest.approx(form, abs=4 * np.sqrt(form * (1 - form) / n))
    accepted = np.mean(rng.random(n) * q[apart] <= p[apart])
    assert accepted == pytest.approx(forms.sum_min, abs=4 * np.sqrt(forms.sum_min * (1 - forms.sum_min) / n))


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_what_is_no_distribution_violates_the_order(factor: float) -> None:
    p = distribution(np.random.default_rng(3), 100)
    assert closed_forms(p, p).ordered
    assert not closed_forms(p, np.full(100, np.nan)).ordered
    assert closed_forms(p, factor * p).ordered == (factor == 2.0), "a q that is too large still bounds from above"


def test_a_q_that_is_too_large_violates_it_where_it_is_peaked() -> None:
    p = np.array([0.9, 0.1])
    assert not closed_forms(p, np.array([1.8, 0.2])).ordered
