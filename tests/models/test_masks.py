"""Masks on logits."""

import mlx.core as mx
import numpy as np
import pytest

from stoker.core.request import Sampling
from stoker.models.masks import masked
from stoker.models.sampling import Sampler

pytestmark = pytest.mark.mlx

VOCAB = 70


def bits(*allowed: int, words: int = 3) -> np.ndarray:
    flags = np.zeros(words * 32, np.uint8)
    flags[list(allowed)] = 1
    return np.packbits(flags, bitorder="little").view(np.uint32)


def logits(rows: int = 3, width: int = 2) -> mx.array:
    return mx.random.normal((rows, width, VOCAB), key=mx.random.key(1))


def test_nothing_is_done_where_no_row_has_a_grammar() -> None:
    x = logits()
    assert masked(x, {}) is x


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_forbidden_tokens_are_ruled_out_and_all_else_stays_bit_for_bit(dtype: mx.Dtype) -> None:
    x = logits().astype(dtype)
    y = masked(x, {1: np.stack([bits(0, 33, 69)])})
    assert y.dtype == dtype
    assert mx.array_equal(y[0], x[0])
    assert mx.array_equal(y[2], x[2])
    assert mx.array_equal(y[1, 1], x[1, 1]), "a column without a mask"
    finite = np.flatnonzero(np.isfinite(np.array(y[1, 0].astype(mx.float32))))
    assert finite.tolist() == [0, 33, 69]
    assert mx.array_equal(y[1, 0, mx.array([0, 33, 69])], x[1, 0, mx.array([0, 33, 69])])


def test_logits_may_be_wider_or_narrower_than_the_vocabulary() -> None:
    wide = masked(logits(1, 1), {0: np.stack([bits(5, words=2)])})
    assert np.flatnonzero(np.isfinite(np.array(wide[0, 0]))).tolist() == [5]
    narrow = masked(logits(1, 1)[..., :20], {0: np.stack([bits(5, 40, words=3)])})
    assert np.flatnonzero(np.isfinite(np.array(narrow[0, 0]))).tolist() == [5]


class Anything:
    """A constraint that is in force; whoever masks does the rest."""

    def masks(self, draft: object) -> np.ndarray:
        raise NotImplementedError

    def allowed(self, draft: object) -> int:
        raise NotImplementedError

    def advance(self, tokens: object) -> None:
        pass


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_bias_gives_way_where_it_bans_all_that_a_grammar_allows_and_only_there(temperature: float) -> None:
    sampler = Sampler(VOCAB, [])
    banning = Sampling(temperature=temperature, logit_bias=((4, -float("inf")), (5, -float("inf")), (6, 100.0)))
    held, free = sampler.open(banning, (0,), Anything()), sampler.open(banning, (0,))
    x = masked(logits(2, 1), {0: np.stack([bits(4, 5)]), 1: np.stack([bits(4, 5, 6)])})
    assert sampler.choose(x, [held, held], [1, 1]).tokens[0, 0].item() in (4, 5)
    assert sampler.choose(x, [held, held], [1, 1]).tokens[1, 0].item() == 6
    alone = sampler.distribution(x[0], held, 1)
    assert mx.sum(alone).item() == pytest.approx(1.0)
    mixed = sampler.choose(mx.concatenate([x, logits(1, 1)]), [held, held, free], [1, 1, 1]).tokens
    assert mixed[2, 0].item() == 6
