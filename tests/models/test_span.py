"""Which columns a forward reads and writes, and what each query sees."""

import mlx.core as mx
import numpy as np
import pytest

from stoker.models.span import ROUND, Size, Span, padded

pytestmark = pytest.mark.mlx

SIZE = Size(rows=4, columns=256)


def seen(span: Span, own: int | None = None, asked: int | None = None) -> np.ndarray:
    mask = span.mask(own, asked, True)
    assert isinstance(mask, mx.array)
    return np.array(mask)


def test_rows_at_one_length_need_slices_and_one_offset_only() -> None:
    span = Span(0, 2, 3, (5, 5, 9, 0), SIZE)
    assert (span.level, span.top, span.offset) == (True, 8, 5)
    assert span.mask(None, None, False) == "causal"
    assert Span(0, 2, 1, (5, 5, 9, 0), SIZE).mask(None, None, False) is None


def test_ragged_rows_read_a_round_number_of_columns_and_see_their_own_past() -> None:
    span = Span(0, 2, 2, (5, 9, 0, 0), SIZE)
    assert (span.level, span.top) == (False, ROUND)
    mask = seen(span)
    assert mask.shape == (2, 1, 2, ROUND)
    assert mask.sum(axis=-1).squeeze().tolist() == [[6, 7], [10, 11]]


def test_no_row_reads_beyond_the_buffers() -> None:
    assert Span(0, 2, 4, (250, 255, 0, 0), SIZE).top == 256


def test_a_window_hides_what_lies_before_it() -> None:
    mask = seen(Span(0, 1, 2, (10, 0, 0, 0), SIZE), asked=4)
    assert mask[0].nonzero()[0].tolist() == [7, 8, 9, 10]
    assert mask[1].nonzero()[0].tolist() == [8, 9, 10, 11]
    span = Span(0, 1, 2, (10, 0, 0, 0), SIZE)
    assert span.bottom(4) == 7
    assert seen(span, own=4).shape == (2, 12 - 7)


@pytest.mark.parametrize("own", [None, 20, 100])
@pytest.mark.parametrize("lengths", [(70, 70), (70, 90)])
def test_with_a_grain_narrow_forwards_of_any_rows_read_whole_grains_and_see_the_same(
    lengths: tuple[int, int], own: int | None
) -> None:
    fine, coarse = Span(0, 2, 3, lengths, SIZE), Span(0, 2, 3, lengths, SIZE, grain=32)
    assert (coarse.bottom(own) % 32, coarse.top % 32) == (0, 0)
    whole = np.zeros((2, 2, 1, 3, SIZE.columns), bool)
    for at, span in zip(whole, (fine, coarse), strict=True):
        at[..., span.bottom(own) : span.top] = seen(span, own=own)
    assert np.array_equal(whole[0], whole[1])
    assert coarse.mask(None, None, False) != "causal", "columns behind the newest are read: an array hides them"


def test_a_grain_changes_neither_a_plain_step_nor_a_prompt() -> None:
    for width in (1, 33):
        fine, coarse = Span(0, 2, width, (5, 5), SIZE), Span(0, 2, width, (5, 5), SIZE, grain=32)
        assert (coarse.top, coarse.mask(None, None, False)) == (fine.top, fine.mask(None, None, False))


def test_a_scatter_pays_for_many_rows_and_only_where_all_have_room() -> None:
    assert Span(0, 4, 1, (1, 2, 3, 4), SIZE).scattered
    assert not Span(0, 1, 1, (1, 2, 3, 4), SIZE).scattered
    assert not Span(0, 4, 1, (1, 2, 3, 256), SIZE).scattered
    assert np.array(Span(0, 4, 2, (1, 2, 3, 4), SIZE).targets()).squeeze().tolist() == [[1, 2], [2, 3], [3, 4], [4, 5]]


def test_rows_outside_of_a_forward_are_filled_with_zeros() -> None:
    new = mx.ones((2, 1, 1, 1))
    assert np.array(padded(new, Span(1, 3, 1, (1, 2, 3, 4), SIZE))).reshape(-1).tolist() == [0, 1, 1, 0]
    assert padded(mx.ones((4, 1, 1, 1)), Span(0, 4, 1, (1, 2, 3, 4), SIZE)).shape == (4, 1, 1, 1)
