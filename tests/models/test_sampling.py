"""Choices: drawn from exactly p, the same in any company and width, and fair."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models import reference
from models.reference import chi_cut, chi_square, listed
from models.settings import OFF, some_settings
from stoker.core.request import DEFAULT_SAMPLERS, Sampling
from stoker.models import noise
from stoker.models.sampling import Sampler

pytestmark = pytest.mark.mlx

D = Sampling()
SETTINGS = [
    D,
    replace(D, temperature=0.0),
    replace(D, top_k=1),
    replace(D, temperature=0.0, repeat_penalty=1.5, logit_bias=((3, 4.0),)),
    replace(OFF),
    replace(D, repeat_penalty=1.3, presence_penalty=0.2, frequency_penalty=0.1, repeat_last_n=6),
    replace(D, dry_multiplier=0.8, dry_allowed_length=1),
    replace(D, top_k=0, temperature=1.4),
    replace(D, xtc_probability=0.5, xtc_threshold=0.1),
    replace(D, typical_p=0.6, dynatemp_range=0.5),
    replace(D, top_n_sigma=1.5, samplers=("temperature", "top_n_sigma", "penalties"), presence_penalty=1.0),
    replace(D, mirostat=1, mirostat_tau=2.0),
    replace(D, mirostat=2, mirostat_tau=2.0),
    replace(D, samplers=(*DEFAULT_SAMPLERS, "adaptive_p"), adaptive_target=0.3),
]
SETTINGS = [replace(s, seed=40 + i // 2) for i, s in enumerate([*SETTINGS, *SETTINGS])]
"""Every kind twice, under two seeds; neighbours share a seed."""


def run(sampler: Sampler, logits: np.ndarray, s: Sampling, prompt: Sequence[int]) -> list[int]:
    """The tokens of one row alone, one column a tick: logits [w, V]."""
    row, tokens = sampler.open(s, prompt), []
    for i, x in enumerate(logits):
        choice = sampler.choose(mx.array(x)[None, None], [row], [len(prompt) + i])
        mx.eval(choice.tokens, *choice.arrays)
        tokens.append(int(listed(choice.tokens)[0][0]))
        choice.settle([tokens[-1:]])
    return tokens


@pytest.mark.parametrize("vocab", [40, 4200])
def test_a_column_chooses_the_same_token_alone_in_company_and_in_a_wide_verify(vocab: int) -> None:
    width, count = 4, len(SETTINGS)
    rng = np.random.default_rng(vocab)
    logits = (rng.normal(size=(count, width, vocab)) * 2.5).astype(np.float32)
    prompts = [rng.integers(0, 20, int(rng.integers(0, 12))).tolist() for _ in SETTINGS]
    sampler = Sampler(vocab, [b"%d" % i for i in range(vocab)])
    alone = [run(sampler, logits[r], SETTINGS[r], prompts[r]) for r in range(count)]
    order = rng.permutation(count).tolist()

    rows = [sampler.open(SETTINGS[r], prompts[r]) for r in order]
    starts = [len(prompts[r]) for r in order]
    drafts = [alone[r][:-1] for r in order]
    company = sampler.choose(mx.array(logits[order]), rows, starts, drafts)
    assert company.tokens.tolist() == [alone[r] for r in order]
    assert company.tokens.dtype == mx.int32

    wrong = [[*d[:1], (d[1] + 1) % vocab, *d[2:]] for d in drafts]  # columns up to the wrong proposal still hold
    misled = listed(sampler.choose(mx.array(logits[order]), rows, starts, wrong).tokens)
    assert [tokens[:2] for tokens in misled] == [alone[r][:2] for r in order]

    for start, n in ((0, 1), (3, 5)):  # part of the company, one column wide
        few = sampler.choose(
            mx.array(logits[order][start : start + n, :1]), rows[start : start + n], starts[start:][:n]
        )
        assert few.tokens.tolist() == [alone[r][:1] for r in order[start : start + n]]


def test_p_of_a_column_is_bitwise_the_same_at_any_width() -> None:
    rng = np.random.default_rng(2)
    logits = mx.array((rng.normal(size=(5, 4200)) * 2.5).astype(np.float32))
    sampler = Sampler(4200, [])
    for s in (*SETTINGS[:11], *(some_settings(i) for i in range(5))):
        row = sampler.open(s, [1, 2, 3, 2])
        wide = sampler.distribution(logits, row, 4, [7, 7, 2, 3])
        for i in range(5):
            after = sampler.open(s, [1, 2, 3, 2, *[7, 7, 2, 3][:i]])
            assert mx.array_equal(sampler.distribution(logits[i : i + 1], after, 4 + i)[0], wide[i])


def test_a_choice_is_the_keyed_argmax_over_p() -> None:
    rng = np.random.default_rng(3)
    vocab = 64
    sampler = Sampler(vocab, [])
    for i in range(60):
        s = replace(some_settings(i), repeat_penalty=1.2, samplers=DEFAULT_SAMPLERS if i % 2 else D.samplers[::-1])
        x = (rng.normal(size=(3, vocab)) * 3).astype(np.float32)
        row = sampler.open(s, [4, 5, 6])
        tokens = listed(sampler.choose(mx.array(x)[None], [row], [10], [[1, 2]]).tokens)[0]
        p = sampler.distribution(mx.array(x), row, 10, [1, 2])
        keys = noise.keys([(s.seed, 10 + j) for j in range(3)])
        assert tokens == mx.argmax(mx.log(p) + noise.gumbel(keys, mx.arange(vocab)[None]), axis=-1).tolist()
        for j, token in enumerate(tokens):
            left = reference.chain(x[j].tolist(), s, position=10 + j, history=[4, 5, 6, 1, 2][: 3 + j])
            assert token == reference.draw(left, s.seed, 10 + j)


def test_a_choice_lies_in_the_support_of_p() -> None:
    rng = np.random.default_rng(4)
    sampler = Sampler(50, [])
    for i in range(40):
        s = some_settings(100 + i)
        x = mx.array((rng.normal(size=(8, 50)) * 2).astype(np.float32))
        row = sampler.open(s, [])
        p = np.array(sampler.distribution(x, row, 0))
        tokens = listed(sampler.choose(x[None], [row], [0]).tokens)[0]
        assert (p[np.arange(8), tokens] > 0).all()
        np.testing.assert_allclose(p.sum(axis=-1), 1.0, rtol=1e-5)


COUNTS = [20_000, pytest.param(400_000, marks=pytest.mark.slow)]
WARM = replace(D, temperature=0.8, top_k=12, top_p=0.98, min_p=0.01)
LOGITS = np.random.default_rng(6).normal(size=16).astype(np.float32) * 1.2


def expected(s: Sampling, n: int) -> list[float]:
    sampler = Sampler(16, [])
    return [n * q for q in listed(sampler.distribution(mx.array(LOGITS)[None], sampler.open(s, []), 0)[0])]


def counted(tokens: mx.array) -> list[int]:
    counts = Counter(listed(tokens.reshape(-1)))
    return [counts[x] for x in range(16)]


@pytest.mark.parametrize("n", COUNTS)
def test_draws_over_positions_have_the_frequencies_of_p(n: int) -> None:
    """Power: noise without the temperature, or a temperature off by 8 %, is rejected at the same level (1e-4)."""
    sampler = Sampler(16, [])
    row = sampler.open(replace(WARM, seed=77), [])
    seen = counted(sampler.choose(mx.broadcast_to(mx.array(LOGITS), (1, n, 16)), [row], [50]).tokens)
    want = expected(WARM, n)
    cut = chi_cut(sum(e > 0 for e in want) - 1)
    assert chi_square(seen, want) < cut
    assert chi_square(seen, expected(replace(WARM, temperature=0.8 * 1.08), n)) > cut
    wrong = mx.array([math.log(q / n) * 0.8 if q else -math.inf for q in want])  # the candidates, but untempered
    keys = noise.keys([(77, 50 + t) for t in range(n)])
    untempered = mx.argmax(wrong[None] + noise.gumbel(keys, mx.arange(16)[None]), axis=-1)
    assert chi_square(counted(untempered), want) > cut


@pytest.mark.parametrize("n", COUNTS)
def test_draws_over_seeds_have_the_frequencies_of_p(n: int) -> None:
    """Power: one and the same noise for every seed is rejected."""
    sampler = Sampler(16, [])
    rows = [sampler.open(replace(WARM, seed=seed), []) for seed in range(n)]
    logits = mx.broadcast_to(mx.array(LOGITS), (n, 1, 16))
    want = expected(WARM, n)
    cut = chi_cut(sum(e > 0 for e in want) - 1)
    assert chi_square(counted(sampler.choose(logits, rows, [9] * n).tokens), want) < cut
    assert chi_square(counted(sampler.choose(logits, rows[:1] * n, [9] * n).tokens), want) > cut


def test_draws_without_a_top_k_are_fair_too() -> None:
    s, n = replace(WARM, top_k=0, top_p=1.0, min_p=0.0, temperature=1.0), 20_000
    sampler = Sampler(16, [])
    logits = mx.broadcast_to(mx.array(LOGITS), (1, n, 16))
    seen = counted(sampler.choose(logits, [sampler.open(s, [])], [0]).tokens)
    assert chi_square(seen, expected(s, n)) < chi_cut(15)


def test_neighbouring_positions_draw_independently() -> None:
    n = 20_000
    sampler = Sampler(16, [])
    logits = mx.broadcast_to(mx.array(LOGITS), (1, n, 16))
    tokens = listed(sampler.choose(logits, [sampler.open(WARM, [])], [0]).tokens)[0]
    p = [e / n for e in expected(WARM, n)]
    pairs = Counter(zip(tokens[::2], tokens[1::2], strict=True))
    cells = [(x, y) for x in range(16) for y in range(16)]
    want = [n / 2 * p[x] * p[y] for x, y in cells]
    assert chi_square([pairs[c] for c in cells], want) < chi_cut(sum(e >= 5 for e in want))


def test_a_greedy_choice_is_the_argmax_after_bias_and_penalties() -> None:
    sampler = Sampler(4, [])
    logits = mx.array([[[3.0, 2.9, 2.5, -1.0]]])

    def best(s: Sampling) -> int:
        row = sampler.open(s, [0, 0])
        token = int(listed(sampler.choose(logits, [row], [2]).tokens)[0][0])
        assert sampler.distribution(logits[0], row, 2).tolist() == [[float(x == token) for x in range(4)]]
        return token

    cold = replace(D, temperature=0.0)
    assert best(cold) == 0
    assert best(replace(cold, frequency_penalty=0.1)) == 1
    assert best(replace(cold, repeat_penalty=1.1, logit_bias=((1, -1.0),))) == 0
    assert best(replace(cold, logit_bias=((0, -math.inf), (1, -math.inf)))) == 2
    assert best(replace(cold, logit_bias=((3, 2.0), (3, 3.0), (9, 50.0)))) == 3
    assert best(replace(D, top_k=1, logit_bias=((0, -math.inf), (0, math.inf)))) == 1
    assert best(replace(D, top_k=1)) == 0


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_logits_of_half_precision_are_sampled_in_float32(dtype: mx.Dtype) -> None:
    sampler = Sampler(300, [])
    logits = mx.array(np.random.default_rng(8).normal(size=(2, 3, 300)).astype(np.float32)).astype(dtype)
    for s in (D, replace(D, temperature=0.0), replace(D, temperature=0.0, presence_penalty=1.0)):
        rows = [sampler.open(replace(s, seed=i), [1]) for i in range(2)]
        exact = sampler.choose(logits.astype(mx.float32), rows, [1, 1])
        assert sampler.choose(logits, rows, [1, 1]).tokens.tolist() == exact.tokens.tolist()
        assert sampler.distribution(logits[0], rows[0], 1).dtype == mx.float32


def test_equal_settings_share_a_chain_and_different_ones_do_not() -> None:
    sampler = Sampler(8, [])
    a, b, c = (sampler.open(s, []) for s in (D, replace(D, seed=3), replace(D, top_k=3)))
    assert a.chain is b.chain
    assert a.chain is not c.chain
    assert len(sampler._chains) == 2
    del a, b, c
    assert len(sampler._chains) == 0


def test_nothing_is_evaluated_by_a_choice() -> None:
    """Within a trace any look at a value raises."""
    sampler = Sampler(64, [b"a"] * 64)
    rows = [sampler.open(s, [1, 2]) for s in SETTINGS[:14]]
    seen: list[mx.array] = []

    def traced(logits: mx.array) -> mx.array:
        choice = sampler.choose(logits, rows, [2] * len(rows), [[3, 4]] * len(rows))
        seen.extend(choice.arrays)
        return choice.tokens

    assert mx.compile(traced)(mx.zeros((len(rows), 3, 64))).shape == (len(rows), 3)
    assert len(seen) == 3
    with pytest.raises(ValueError, match="eval"):
        mx.compile(lambda x: mx.array(x.max().item()))(mx.zeros(3))  # power
