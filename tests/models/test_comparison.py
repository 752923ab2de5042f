import math

import mlx.core as mx
import pytest

from stoker.models.comparison import LARGEST, Comparison, Grade, compare

pytestmark = pytest.mark.mlx


def test_equal_bytes_are_bitwise_whatever_they_say() -> None:
    odd = mx.array([[0.0, -0.0, math.nan, math.inf, -math.inf]])
    found = compare(odd, mx.array([[0.0, -0.0, math.nan, math.inf, -math.inf]]))
    assert (found, found.grade) == (Comparison(bytes=20), Grade.BITWISE)


def test_one_bit_of_one_logit_is_counted() -> None:
    a = mx.array([[1.0, 2.0, 3.0]])
    b = (a.view(mx.uint32) ^ mx.array([[0, 1, 0]], mx.uint32)).view(mx.float32)
    found = compare(a, b)
    assert (found.bytes, found.differing, found.grade) == (12, 1, Grade.DECIDED)
    assert found.largest == pytest.approx(2**-22)
    assert found.share == pytest.approx(2**-22 / 3)


def test_a_zero_of_the_other_sign_is_no_noise_yet_not_bitwise() -> None:
    found = compare(mx.array([[0.0, 1.0]]), mx.array([[-0.0, 1.0]]))
    assert (found.differing, found.largest, found.grade) == (1, 0.0, Grade.DECIDED)


def test_a_change_of_the_best_is_decided_while_it_led_by_less_than_the_noise() -> None:
    found = compare(mx.array([[10.0, 9.99, -5.0]]), mx.array([[9.98, 10.0, -5.02]]))
    assert found.margin == pytest.approx(0.01, abs=1e-5)
    assert found.margin < found.largest
    assert found.grade is Grade.DECIDED


def test_a_change_of_the_best_that_led_by_more_than_the_noise_is_neither() -> None:
    found = compare(mx.array([[10.0, 9.97, -5.0]]), mx.array([[9.98, 9.99, -5.0]]))
    assert found.margin > found.largest
    assert found.grade is Grade.NEITHER


def test_a_difference_too_large_to_be_rounding_is_neither_though_no_choice_changes() -> None:
    a = mx.array([[16.0, 1.0, 0.0]])
    assert compare(a, mx.array([[16.0, 1.9, 0.0]])).grade is Grade.DECIDED
    assert compare(a, mx.array([[16.0, 2.1, 0.0]])).grade is Grade.NEITHER


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_the_largest_difference(wrong: float) -> None:
    found = compare(mx.array([[1.0, 2.0]]), mx.array([[1.0, wrong]]))
    assert (found.largest, found.grade) == (LARGEST, Grade.NEITHER)
    assert math.isfinite(found.share)
    assert math.isfinite(found.margin)


def test_banned_tokens_and_blank_columns_disturb_no_figure() -> None:
    a = mx.array([[-math.inf, 8.0, 1.0], [0.0, 0.0, 0.0]])
    found = compare(a, mx.array([[-math.inf, 8.0, 1.5], [0.0, 0.0, 0.0]]))
    assert (found.largest, found.share, found.margin) == (0.5, 0.0625, 0.0)


def test_sums_pool_counts_and_keep_the_worst_figures() -> None:
    total = Comparison(10, 1, 0.5, 0.01, 0.0) + Comparison(20, 2, 0.25, 0.02, 0.4)
    assert total == Comparison(30, 3, 0.5, 0.02, 0.4)


def test_grades_are_ordered_best_first() -> None:
    assert Grade.BITWISE.rank < Grade.DECIDED.rank < Grade.NEITHER.rank


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_is_compared_in_its_own_bytes(dtype: mx.Dtype) -> None:
    a = mx.array([[1.0, 2.0, 4.0]], dtype)
    found = compare(a, mx.array([[1.0, 2.0, 4.0 + 4 * float(mx.finfo(dtype).eps)]], dtype))
    assert (found.bytes, found.differing, found.grade) == (6, 1, Grade.DECIDED)


def test_different_shapes_or_types_are_refused() -> None:
    with pytest.raises(ValueError, match="against"):
        compare(mx.zeros((1, 2)), mx.zeros((2, 2)))
    with pytest.raises(ValueError, match="against"):
        compare(mx.zeros((1, 2)), mx.zeros((1, 2), mx.float16))
