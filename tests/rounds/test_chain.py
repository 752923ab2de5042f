"""A draft that grows token by token: what it says its tokens were drawn from."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from rounds.harness import WARM
from stoker.models.sampling import Sampler
from stoker.rounds.base import Ask, Drawing
from stoker.rounds.chain import Chain

pytestmark = pytest.mark.mlx
Q = np.array([0.4, 0.3, 0.2, 0.1])
P = np.array([0.1, 0.2, 0.3, 0.4])
LEAST = 0.25


def proposals(seed: int, least_p: float, depth: int = 1):
    sampler = Sampler(4, [])
    draws = sampler.open(replace(WARM, seed=seed, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0), (1,))
    ask = Ask(None, 1, 0, depth, Drawing(coupled=False, with_q=True))  # type: ignore[arg-type]
    chain = Chain(sampler, [ask], [draws], [depth])
    for _ in range(depth):
        chain.draw(mx.log(mx.array(Q, mx.float32))[None, None])
    return chain.proposals(least_p)[0]


def test_without_a_floor_q_is_what_the_drafter_says() -> None:
    found = proposals(0, 0.0, depth=3)
    assert len(found) == 3
    assert found.q is not None
    assert np.allclose(np.array(found.q), [Q] * 3, atol=1e-6)


def test_a_floor_ends_the_chain_before_an_unlikely_token_and_q_knows() -> None:
    seen = [proposals(seed, LEAST) for seed in range(60)]
    assert {len(it) for it in seen} == {0, 1}
    for it in seen:
        if len(it):
            assert it.q is not None
            assert np.allclose(np.array(it.q)[0], [4 / 7, 3 / 7, 0, 0], atol=1e-6)


@pytest.mark.parametrize(("told", "biased"), [(np.where(Q >= LEAST, Q, 0) / 0.7, False), (Q, True)])
def test_modified_rejection_behind_a_floor_emits_the_targets_law_only_with_that_q(
    told: np.ndarray, biased: bool
) -> None:
    """The law of the first emitted token, worked out: with the whole q in its place it would be another one."""
    law = np.where(Q < LEAST, Q, 0).sum() * P  # the chain ended at once: the target's own draw
    residual = np.maximum(P - told, 0)
    for token in np.flatnonzero(Q >= LEAST):
        accepted = min(1.0, P[token] / told[token])
        law = law + Q[token] * (accepted * np.eye(4)[token] + (1 - accepted) * residual / residual.sum())
    assert np.allclose(law, P) is not biased
