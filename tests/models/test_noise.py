"""The hash: exact against integers, uniform at the size of use, finite everywhere."""

import math
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest

from models import reference
from models.reference import chi_cut, chi_square, listed
from stoker.models import noise

pytestmark = pytest.mark.mlx

DECISIONS = [(0, 0), (1, 0), (42, 7), (42, 8), (2**32 - 1, 131_071), (123_456_789, 2**31)]
PINNED_KEY = 0x55BE888977820BEF
PINNED_UNIFORM = 0.6181764006614685
TOKENS = [0, 1, 2, 39, 511, 49_151, 262_143]


def bins(u: np.ndarray, n: int = 256) -> float:
    counts = np.bincount((u.ravel() * n).astype(int), minlength=n)
    return chi_square(counts.tolist(), [u.size / n] * n)


@pytest.mark.parametrize("purpose", list(noise.Purpose))
def test_uniforms_equal_the_integer_formulas_exactly(purpose: noise.Purpose) -> None:
    got = noise.uniform(noise.keys(DECISIONS, purpose), mx.array([TOKENS])).tolist()
    want = [[reference.uniform(s, t, x, purpose) for x in TOKENS] for s, t in DECISIONS]
    assert got == want


def test_gumbel_noise_is_the_double_logarithm_of_the_uniforms() -> None:
    got = np.array(noise.gumbel(noise.keys(DECISIONS), mx.array([TOKENS])))
    want = [[reference.gumbel(s, t, x) for x in TOKENS] for s, t in DECISIONS]
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_released_values_never_change() -> None:
    # Pinned: another value here means that every seeded answer in the world changes.
    assert noise.key(42, 7) == (PINNED_KEY >> 32, PINNED_KEY & 0xFFFFFFFF)
    assert noise.uniform(noise.keys([(42, 7)]), mx.array([[5]])).item() == PINNED_UNIFORM


def test_a_token_has_the_same_noise_wherever_it_stands() -> None:
    keys = noise.keys(DECISIONS)
    whole = np.array(noise.gumbel(keys, mx.arange(5000)[None]))
    order = np.random.default_rng(1).permutation(5000)
    for n in (1, 2, 7, 8, 9, 31, 40, 1000):
        few = np.array(noise.gumbel(keys[2:4], mx.array(np.stack([order[:n], order[-n:]]))))
        assert (few[0] == whole[2, order[:n]]).all()
        assert (few[1] == whole[3, order[-n:]]).all()


def test_the_extremes_of_the_hash_give_finite_noise() -> None:
    # The largest uniform is 1 - 2^-24, the smallest 2^-24: both exact in float32, and their noise is finite.
    ends = noise._unit(mx.array([0, 2**32 - 1], dtype=mx.uint32))
    assert ends.tolist() == [2.0**-24, 1 - 2.0**-24]
    bounds = (-mx.log(-mx.log(ends))).tolist()
    assert bounds == pytest.approx([-2.8115, 16.6355], abs=1e-3)
    naive = ((mx.array([2**32 - 1], dtype=mx.uint32) >> 8).astype(mx.float32) + 0.5) / 2**24
    assert naive.item() == 1.0  # 24 bits would have rounded to 1: the check above can fail


def test_uniforms_are_uniform_over_positions_seeds_and_neighbouring_tokens() -> None:
    """200,000 values in 256 cells, 781 in each: sees cells that are off by 4 % in the mean, or a slightly bent line."""
    n = 200_000
    one = mx.array([[17]])
    over_positions = noise.uniform(noise.keys([(7, t) for t in range(n)]), one)
    over_seeds = noise.uniform(noise.keys([(s, 7) for s in range(n)]), one)
    over_tokens = noise.uniform(noise.keys([(7, t) for t in range(4)]), mx.arange(n // 4)[None])
    for u in (over_positions, over_seeds, over_tokens):
        assert bins(np.array(u)) < chi_cut(255)
    assert bins(np.array(over_positions) ** 1.04) > chi_cut(255)  # power


def test_neighbours_are_uncorrelated() -> None:
    u = np.array(noise.uniform(noise.keys([(3, t) for t in range(400)]), mx.arange(1000)[None])) - 0.5
    bound = 4.5 / math.sqrt(u.size)  # 4.5 sigma of 400,000 products
    assert abs((u[1:] * u[:-1]).mean() * 12) < bound
    assert abs((u[:, 1:] * u[:, :-1]).mean() * 12) < bound
    coins = np.array(noise.uniform(noise.keys([(3, t) for t in range(400)], noise.Purpose.COIN), mx.arange(1000)[None]))
    assert abs((u * (coins - 0.5)).mean() * 12) < bound
    assert abs((u * u).mean() * 12) > bound  # power


@pytest.mark.parametrize("count", [20_000, pytest.param(400_000, marks=pytest.mark.slow)])
def test_draws_have_the_frequencies_of_p(count: int) -> None:
    p = [0.4, 0.3, 0.2, 0.1]
    keys = noise.keys([(11, t) for t in range(count)])
    drawn = mx.argmax(mx.log(mx.array([p])) + noise.gumbel(keys, mx.arange(4)[None]), axis=-1)
    counts = Counter(listed(drawn))
    seen = [counts[x] for x in range(4)]
    assert chi_square(seen, [q * count for q in p]) < chi_cut(3)
    assert chi_square(seen, [q * count for q in (0.42, 0.29, 0.19, 0.1)]) > chi_cut(3)  # power
