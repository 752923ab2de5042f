import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.acceptance.rules import match, modified_rejection
from stoker.acceptance.verdict import Verdict

P = (0.05, 0.1, 0.15, 0.3, 0.4)
Q = P[::-1]
SUM_MIN = sum(min(a, b) for a, b in zip(P, Q, strict=True))
SUM_PROD = sum(a * b for a, b in zip(P, Q, strict=True))


def test_a_plain_row_is_a_round_without_proposals() -> None:
    assert match((), (7,)) == Verdict((7,), 0, 0)


def test_a_fully_accepted_round_emits_one_bonus_token() -> None:
    assert match((1, 2), (1, 2, 3)) == Verdict((1, 2, 3), accepted=2, tested=2)


def test_the_first_mismatch_ends_the_chain_with_the_targets_choice() -> None:
    assert match((1, 2, 3), (1, 9, 3, 4)) == Verdict((1, 9), accepted=1, tested=2)


def test_a_wrong_number_of_choices_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 choices"):
        match((1,), (1,))


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_what_match_emits_are_the_targets_choices(draft: list[int], choices: list[int]) -> None:
    verdict = match(draft, choices[: len(draft) + 1])
    assert verdict.emitted == tuple(choices[: len(verdict.emitted)])
    assert len(verdict.emitted) == verdict.accepted + 1
    assert verdict.accepted <= verdict.tested <= len(draft)


def test_a_token_that_the_target_rules_out_is_never_accepted() -> None:
    verdict = modified_rejection((1,), p=(0.0,), q=(0.5,), u=(1e-9,), choices=(2, 3))
    assert verdict == Verdict((2,), accepted=0, tested=1)


def test_a_token_that_the_target_likes_as_much_is_always_accepted() -> None:
    assert modified_rejection((1,), p=(0.5,), q=(0.5,), u=(1 - 1e-9,), choices=(2, 3)).emitted == (1, 3)


def draw(rng: random.Random, weights: list[float] | tuple[float, ...]) -> int:
    return rng.choices(range(len(weights)), weights)[0]


def simulate(rounds: int, *, residual: bool = True) -> tuple[list[int], float]:
    """First emitted token of many rounds of three drafts, and the acceptance per tested position."""
    rng, counts, accepted, tested = random.Random(5), [0] * len(P), 0, 0
    rest = [max(a - b, 0.0) for a, b in zip(P, Q, strict=True)]
    for _ in range(rounds):
        draft = [draw(rng, Q) for _ in range(3)]
        choices = [draw(rng, rest if residual else P) for _ in draft] + [draw(rng, P)]
        verdict = modified_rejection(
            draft, [P[t] for t in draft], [Q[t] for t in draft], [rng.random() for _ in draft], choices
        )
        counts[verdict.emitted[0]] += 1
        accepted, tested = accepted + verdict.accepted, tested + verdict.tested
    return counts, accepted / tested


def chi_square(counts: list[int]) -> float:
    n = sum(counts)
    return sum((got - n * p) ** 2 / (n * p) for got, p in zip(counts, P, strict=True))


CUT = 23.51
"""Chi-square, 4 degrees of freedom, alpha = 1e-4."""


def test_the_accept_rate_sits_at_the_sum_of_minima() -> None:
    counts, rate = simulate(20_000)
    assert chi_square(counts) < CUT
    assert rate == pytest.approx(SUM_MIN, abs=4 * math.sqrt(SUM_MIN * (1 - SUM_MIN) / 20_000))


def test_drawing_from_p_instead_of_the_residual_is_seen_by_the_same_statistic() -> None:
    counts, _ = simulate(20_000, residual=False)
    assert chi_square(counts) > 10 * CUT


@pytest.mark.parametrize("token", range(len(P)))
def test_each_token_is_accepted_with_probability_min_1_p_over_q(token: int) -> None:
    rng, n = random.Random(token), 20_000
    passed = sum(
        modified_rejection((token,), (P[token],), (Q[token],), (rng.random(),), (0, 0)).accepted for _ in range(n)
    )
    expected = min(1.0, P[token] / Q[token])
    assert passed / n == pytest.approx(expected, abs=4 * math.sqrt(max(expected * (1 - expected), 1e-9) / n))


def test_match_accepts_at_the_sum_of_products() -> None:
    rng, n = random.Random(1), 40_000
    rate = sum(match((draw(rng, Q),), (draw(rng, P), 0)).accepted for _ in range(n)) / n
    assert rate == pytest.approx(SUM_PROD, abs=4 * math.sqrt(SUM_PROD / n))
