"""Mirostat and adaptive-p over whole answers, against llama.cpp's behaviour."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models import reference
from models.reference import listed
from stoker.core.request import DEFAULT_SAMPLERS, Sampling
from stoker.models.sampling import Row, Sampler

pytestmark = pytest.mark.mlx

VOCAB = 160
MIROSTAT = [
    Sampling(mirostat=version, mirostat_tau=tau, mirostat_eta=eta, temperature=t, seed=5)
    for version in (1, 2) for tau, eta, t in ((5.0, 0.1, 0.8), (1.0, 0.3, 1.0), (3.0, 0.5, 1.5))
]  # fmt: skip
ADAPTIVE = [
    Sampling(samplers=(*DEFAULT_SAMPLERS, "adaptive_p"), adaptive_target=target, adaptive_decay=decay, seed=5, top_k=k)
    for target, decay, k in ((0.5, 0.9, 40), (0.05, 0.5, 0), (1.0, 0.99, 40), (0.2, 0.0, 12))
]


def logits_of(steps: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(steps, VOCAB)) * rng.uniform(0.5, 4.0, size=(steps, 1))).astype(np.float32)


def step(sampler: Sampler, row: Row, logits: np.ndarray, position: int) -> int:
    choice = sampler.choose(mx.array(logits)[None, None], [row], [position])
    mx.eval(choice.tokens, *choice.arrays)
    token = int(listed(choice.tokens)[0][0])
    choice.settle([[token]])
    return token


def same(got: mx.array, kept: reference.Toks) -> None:
    p, want = np.array(got[0]), np.array(reference.by_id(kept, VOCAB))
    assert ((p > 0) == (want > 1e-38)).all()
    np.testing.assert_allclose(p, want, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("s", MIROSTAT, ids=lambda s: f"v{s.mirostat}-tau{s.mirostat_tau}")
def test_mirostat_follows_llama_cpp_for_sixty_tokens(s: Sampling) -> None:
    sampler = Sampler(VOCAB, [])
    row, rule = sampler.open(s, []), reference.Mirostat(s, VOCAB)
    sizes = set()
    for position, x in enumerate(logits_of(60)):
        kept = rule.keep(reference.chain(x.tolist(), s))
        sizes.add(len(kept))
        same(sampler.distribution(mx.array(x)[None], row, position), kept)
        token = step(sampler, row, x, position)
        assert token == reference.draw(kept, s.seed, position)
        rule.accept(kept, token)
        assert row.state == pytest.approx((rule.mu,), rel=1e-3, abs=1e-4)
    assert len(sizes) > 5


@pytest.mark.parametrize("s", ADAPTIVE, ids=lambda s: f"target{s.adaptive_target}")
def test_adaptive_p_follows_llama_cpp_for_sixty_tokens(s: Sampling) -> None:
    sampler = Sampler(VOCAB, [])
    row, rule = sampler.open(s, []), reference.Adaptive(s)
    for position, x in enumerate(logits_of(60, seed=1)):
        kept = rule.keep(reference.chain(x.tolist(), s))
        same(sampler.distribution(mx.array(x)[None], row, position), kept)
        token = step(sampler, row, x, position)
        assert token == reference.draw(kept, s.seed, position)
        rule.accept(token)
        assert row.state == pytest.approx((rule.sum, rule.weight), rel=1e-3)


def test_mirostat_ignores_the_filters_and_keeps_the_bias() -> None:
    sampler = Sampler(VOCAB, [])
    s = replace(MIROSTAT[0], temperature=1.0, logit_bias=((7, -float("inf")),))
    x = mx.array(logits_of(1))
    filtered = replace(s, top_k=2, top_p=0.1, repeat_penalty=5.0)
    p = sampler.distribution(x, sampler.open(filtered, [1, 2, 3]), 0)
    assert mx.array_equal(p, sampler.distribution(x, sampler.open(s, []), 0))
    assert listed((p > 0).sum()) > 2
    assert p[0, 7].item() == 0.0


@pytest.mark.parametrize("s", [replace(MIROSTAT[0], temperature=0.0), replace(MIROSTAT[3], temperature=0.0)])
def test_a_cold_stateful_rule_chooses_the_best_token(s: Sampling) -> None:
    sampler = Sampler(VOCAB, [])
    row = sampler.open(s, [])
    for position, x in enumerate(logits_of(5)):
        assert step(sampler, row, x, position) == int(x.argmax())
        assert all(np.isfinite(row.state))


def test_a_negative_target_leaves_adaptive_p_out() -> None:
    sampler = Sampler(VOCAB, [])
    x = mx.array(logits_of(1))
    off = sampler.open(replace(ADAPTIVE[0], adaptive_target=-1.0), [])
    assert off.state == ()
    assert mx.array_equal(sampler.distribution(x, off, 0), sampler.distribution(x, sampler.open(Sampling(), []), 0))


@pytest.mark.parametrize("s", [MIROSTAT[1], MIROSTAT[4], ADAPTIVE[0]])
def test_only_emitted_tokens_move_the_state(s: Sampling) -> None:
    sampler = Sampler(VOCAB, [])
    x = logits_of(4)
    singly = sampler.open(s, [])
    states, tokens = [singly.state], []
    for position in range(4):
        tokens.append(step(sampler, singly, x[position], position))
        states.append(singly.state)
    for emitted in range(5):
        row = sampler.open(s, [])
        choice = sampler.choose(mx.array(x)[None], [row], [0], [tokens[:3]])
        mx.eval(choice.tokens, *choice.arrays)
        assert choice.tokens.tolist() == [tokens]
        choice.settle([tokens[:emitted]])
        assert row.state == pytest.approx(states[emitted])
        p = sampler.distribution(mx.array(x), sampler.open(s, []), 0, tokens[:3])
        assert all(listed(p[i, token]) > 0 for i, token in enumerate(tokens))
