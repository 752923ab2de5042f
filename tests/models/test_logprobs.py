"""Reported probabilities, before and after the chain."""

import mlx.core as mx
import numpy as np
import pytest

from stoker.core.request import Sampling
from stoker.models.logprobs import report, report_drawn
from stoker.models.sampling import Sampler

pytestmark = pytest.mark.mlx


@pytest.mark.parametrize("vocab", [12, 4200])
def test_log_probabilities_are_over_the_whole_vocabulary_without_the_chain(vocab: int) -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, vocab)).astype(np.float32) * 3
    tokens = np.random.default_rng(2).integers(0, vocab, (2, 3))
    got = report(mx.array(x), mx.array(tokens), 5)
    logp = x - np.log(np.exp(x.astype(np.float64)).sum(-1, keepdims=True))
    order = np.argsort(-logp, axis=-1)[..., :5]
    assert (np.array(got.ids) == order).all()
    np.testing.assert_allclose(np.array(got.values), np.take_along_axis(logp, order, -1), rtol=1e-5, atol=1e-5)
    chosen = np.take_along_axis(logp, tokens[..., None], -1)[..., 0]
    np.testing.assert_allclose(np.array(got.chosen), chosen, rtol=1e-5, atol=1e-5)


def test_no_more_alternatives_than_tokens_and_none_when_none_are_asked_for() -> None:
    x = mx.zeros((1, 2, 6))
    tokens = mx.zeros((1, 2), dtype=mx.int32)
    assert report(x, tokens, 50).ids.shape == (1, 2, 6)
    none = report(x, tokens, 0)
    assert none.ids.shape == none.values.shape == (1, 2, 0)
    assert none.chosen[0, 0].item() == pytest.approx(-np.log(6))


def test_drawn_probabilities_are_those_of_p_with_zeros_behind() -> None:
    sampler = Sampler(10, [])
    row = sampler.open(Sampling(top_k=3, top_p=1.0, min_p=0.0), [])
    logits = mx.array([[0.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    p = sampler.distribution(logits, row, 0)
    got = report_drawn(p[None], mx.array([[2]]), 5)
    assert got.ids[0, 0, :3].tolist() == [1, 2, 3]
    assert got.values[0, 0, 3:].tolist() == [0.0, 0.0]
    assert got.values.sum().item() == pytest.approx(1.0)
    assert got.chosen.item() == got.values[0, 0, 1].item()


def test_half_precision_logits_are_reported_in_float32() -> None:
    got = report(mx.array([[[1.0, 2.0, 3.0]]]).astype(mx.bfloat16), mx.array([[1]]), 2)
    assert got.chosen.dtype == got.values.dtype == mx.float32
    assert got.chosen.item() == pytest.approx(-1.4076, abs=1e-3)
