"""The terms of modified rejection: what is looked up, and what is drawn from the residual."""

import mlx.core as mx
import numpy as np
import pytest

from stoker.models.rejection import terms

pytestmark = pytest.mark.mlx

P = mx.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
Q = mx.array([[0.9, 0.1, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])


def test_probabilities_are_those_of_the_proposals() -> None:
    it = terms(P, Q, mx.array([0, 3]), seed=1, start=10)
    assert np.allclose(np.array(it.p), [0.5, 0.0])
    assert np.allclose(np.array(it.q), [0.9, 0.5])
    assert ((np.array(it.u) >= 0) & (np.array(it.u) < 1)).all()


def test_a_rejected_proposals_place_is_drawn_from_what_p_has_more_of() -> None:
    for seed in range(30):
        choices = np.array(terms(P, Q, mx.array([0, 3]), seed, start=10).choices).tolist()
        assert choices == [1, 2, 3], "the residual of each column, and p itself for the last"


def test_a_certain_proposals_residual_is_p_without_it() -> None:
    for seed in range(30):
        it = terms(P, None, mx.array([0, 2]), seed, start=10)
        assert np.array(it.q).tolist() == [1.0, 1.0]
        assert np.array(it.choices)[0] == 1


def test_where_p_has_nothing_more_than_q_the_draw_is_from_p() -> None:
    p = mx.array([[0.25, 0.75], [0.5, 0.5]])
    drawn = {int(np.array(terms(p, p[:1], mx.array([0]), seed, 3).choices)[0]) for seed in range(60)}
    assert drawn == {0, 1}


def test_equal_seeds_and_places_repeat_and_others_do_not() -> None:
    p, q = mx.ones((2, 64)) / 64, mx.ones((1, 64)) / 64

    def drawn(seed: int, start: int) -> list[float]:
        it = terms(p, q, mx.array([0]), seed, start)
        return [*np.array(it.u).tolist(), *np.array(it.choices).tolist()]

    assert drawn(1, 5) == drawn(1, 5)
    assert len({tuple(drawn(seed, start)) for seed in (1, 2) for start in (5, 6)}) == 4
