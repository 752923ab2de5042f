"""Penalties over a window of prompt, answer and drafted prefix."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models import reference
from models.reference import listed
from models.settings import OFF
from stoker.core.request import Sampling
from stoker.models.sampling import Sampler

pytestmark = pytest.mark.mlx

VOCAB = 24
GRID = [
    replace(OFF, repeat_penalty=r, presence_penalty=p, frequency_penalty=f, repeat_last_n=n)
    for r in (1.0, 1.3, 0.8) for p in (0.0, 0.7) for f in (0.0, -0.4, 0.3) for n in (1, 5, 64)
]  # fmt: skip


def check(s: Sampling, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(4, VOCAB)).astype(np.float32) * 2
    prompt, draft = rng.integers(0, 12, 9).tolist(), rng.integers(0, 12, 3).tolist()
    sampler = Sampler(VOCAB, [])
    got = np.array(sampler.distribution(mx.array(logits), sampler.open(s, prompt), len(prompt), draft))
    for i in range(4):
        left = reference.chain(logits[i].tolist(), s, position=len(prompt) + i, history=prompt + draft[:i])
        np.testing.assert_allclose(got[i], reference.by_id(left, VOCAB), rtol=2e-4, atol=1e-7)


def test_penalties_equal_llama_cpps_over_the_grid() -> None:
    for i, s in enumerate(GRID):
        check(s, i)


def test_penalties_behind_filters_touch_the_candidates_only() -> None:
    for i, s in enumerate(GRID):
        check(replace(s, top_k=8, top_p=0.9, samplers=("top_k", "penalties", "top_p")), i)
        check(replace(s, top_p=0.9, samplers=("top_p", "penalties")), i)


def test_the_window_moves_on_with_the_answer() -> None:
    s = replace(OFF, repeat_penalty=2.0, repeat_last_n=3)
    sampler = Sampler(4, [])
    row = sampler.open(s, [0, 0, 0, 1])
    logits = mx.array([[[1.0, 1.0, 1.0, 1.0]]])

    def penalised() -> list[int]:
        p = listed(sampler.distribution(logits[0], row, 0)[0])
        return [x for x in range(4) if p[x] < max(p) - 1e-3]

    assert penalised() == [0, 1]
    for token, want in [(2, [0, 1, 2]), (2, [1, 2]), (2, [2])]:
        choice = sampler.choose(logits, [row], [0])
        mx.eval(choice.tokens)
        choice.settle([[token]])
        assert penalised() == want
    sampler.choose(logits, [row], [0]).settle([[]])  # nothing was emitted
    assert penalised() == [2]


def test_only_what_the_chain_looks_at_is_remembered() -> None:
    sampler = Sampler(4, [])
    prompt = list(range(4)) * 30
    assert sampler.open(OFF, prompt).history == []
    assert len(sampler.open(replace(OFF, repeat_penalty=1.1, repeat_last_n=10), prompt).history) == 10
    assert len(sampler.open(replace(OFF, repeat_penalty=1.1, repeat_last_n=-1), prompt).history) == 120
    row = sampler.open(replace(OFF, dry_multiplier=1.0, dry_penalty_last_n=50, presence_penalty=1.0), prompt)
    assert len(row.history) == 64
    row.remember([1, 2, 3])
    assert row.history[-3:] == [1, 2, 3]
    assert len(row.history) == 64


@pytest.mark.parametrize("r", [0.0, -1.0, 1e38, 1e-38])
def test_absurd_penalties_give_no_undefined_probability(r: float) -> None:
    sampler = Sampler(4, [])
    s = replace(OFF, repeat_penalty=r, logit_bias=((3, -float("inf")),))
    p = sampler.distribution(mx.array([[5.0, -5.0, 1.0, 4.0]]), sampler.open(s, [0, 1, 3]), 0)
    assert mx.isfinite(p).all()
    assert p[0, 3].item() == 0.0


def test_a_token_outside_the_vocabulary_is_ignored() -> None:
    sampler = Sampler(4, [])
    s = replace(OFF, repeat_penalty=1.5)
    known, strange = sampler.open(s, [1]), sampler.open(s, [1, 4, -1])
    logits = mx.array([[5.0, 4.0, 1.0, 4.0]])
    assert mx.array_equal(sampler.distribution(logits, known, 0), sampler.distribution(logits, strange, 0))
