"""Selection of the k best, and the bookkeeping of candidates."""

import mlx.core as mx
import numpy as np
import pytest

from models.reference import listed
from stoker.models.candidates import everything, rank, reorder, spread, token_at, top

pytestmark = pytest.mark.mlx


@pytest.mark.parametrize(
    ("width", "k"), [(5, 1), (5, 5), (64, 3), (1000, 7), (1000, 8), (4099, 32), (4160, 40), (4161, 20), (49_152, 40)]
)
def test_top_finds_the_k_largest_in_order(width: int, k: int) -> None:
    x = np.random.default_rng(width + k).normal(size=(3, width)).astype(np.float32)
    x[1] = np.sort(x[1])  # the best ones all in a few groups, and in the columns that no group holds
    x[2] = np.sort(x[2])[::-1]
    got = top(mx.array(x), k)
    assert (np.array(got.values) == -np.sort(-x, axis=-1)[:, :k]).all()
    assert (np.take_along_axis(x, np.array(got.columns), -1) == np.array(got.values)).all()


def test_top_names_each_column_once_among_equal_values() -> None:
    x = mx.array(np.random.default_rng(0).integers(0, 4, size=(4, 4200)).astype(np.float32))
    got = top(x, 30)
    assert all(len(set(row)) == 30 for row in listed(got.columns))
    assert mx.all(got.values == 3.0)


def test_top_of_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    x = mx.array(np.random.default_rng(1).integers(0, 50, size=(9, 5000)).astype(np.float32))
    together = top(x, 40)
    for row in range(9):
        assert (top(x[row : row + 1], 40).columns == together.columns[row : row + 1]).all()


def test_ranking_keeps_ids_with_their_logits_and_removed_tokens_last() -> None:
    c = rank(everything(mx.array([[0.5, -mx.inf, 2.0, 1.0]])))
    assert c.ids is not None
    assert c.ids.tolist() == [[2, 3, 0, 1]]
    assert rank(c) is c
    again = reorder(c, mx.array([[3, 0]]))
    assert again.ids is not None
    assert again.ids.tolist() == [[1, 2]]
    assert token_at(again, mx.array([[1]])).tolist() == [[2]]


def test_spread_puts_probabilities_back_at_their_ids() -> None:
    logits = mx.array([[0.0, 1.0, -mx.inf, 3.0]])
    plain, sorted_first = spread(everything(logits)), spread(rank(everything(logits)))
    assert plain[0, 2].item() == 0.0
    assert mx.allclose(plain, sorted_first, atol=1e-7)
