"""Each filter, and chains of them, against llama.cpp's behaviour one token at a time: support and probabilities."""

import itertools
import math
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models import reference
from models.reference import listed
from models.settings import OFF, some_settings
from stoker.core.request import DEFAULT_SAMPLERS, Sampling
from stoker.models.sampling import Sampler

pytestmark = pytest.mark.mlx

VOCAB = 48
GRID: dict[str, list[Sampling]] = {
    "top_k": [replace(OFF, top_k=k) for k in (1, 2, 7, 47, 48, 1000)],
    "top_p": [replace(OFF, top_p=p, min_keep=m) for p in (0.0, 0.1, 0.5, 0.9, 0.999) for m in (0, 1, 5, 60)],
    "min_p": [replace(OFF, min_p=p, min_keep=m) for p in (0.01, 0.1, 0.5, 1.0) for m in (0, 1, 5, 60)],
    "typ_p": [replace(OFF, typical_p=p, min_keep=m) for p in (0.0, 0.2, 0.5, 0.95) for m in (0, 1, 5, 60)],
    "top_n_sigma": [replace(OFF, top_n_sigma=n) for n in (0.2, 1.0, 2.5, 10.0)],
    "temperature": [replace(OFF, temperature=t) for t in (0.05, 0.7, 1.5, 8.0)],
    "dynatemp": [
        replace(OFF, temperature=t, dynatemp_range=r, dynatemp_exponent=e)
        for t in (0.4, 1.0) for r in (0.3, 0.4, 2.0) for e in (0.5, 1.0, 2.0)
    ],
    "xtc": [
        replace(OFF, xtc_probability=p, xtc_threshold=t, min_keep=m)
        for p in (0.4, 1.0) for t in (0.0, 0.02, 0.1, 0.3, 0.5) for m in (0, 44)
    ],
}  # fmt: skip


def rows_of_logits(seed: int, n: int = 6) -> np.ndarray:
    """From flat to peaked; one row has banned tokens."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, VOCAB)) * rng.uniform(0.3, 4.0, size=(n, 1))).astype(np.float32)
    x[-1, rng.permutation(VOCAB)[:30]] = -np.inf
    return x


def compare(s: Sampling, seed: int = 0) -> int:
    """Compares `distribution` with the reference for several positions; how many tokens the filters removed."""
    logits = rows_of_logits(seed)
    sampler = Sampler(VOCAB, [])
    row = sampler.open(s, [])
    got = np.array(sampler.distribution(mx.array(logits), row, 100))
    removed = 0
    for i, x in enumerate(logits.tolist()):
        want = np.array(reference.by_id(reference.chain(x, s, position=100 + i), VOCAB))
        assert ((got[i] > 0) == (want > 1e-38)).all(), (s, i)
        np.testing.assert_allclose(got[i], want, rtol=2e-4, atol=1e-7)
        removed += int((want == 0).sum())
    return removed


@pytest.mark.parametrize("name", [name for name in GRID if "temp" not in name])
def test_a_filter_alone_keeps_what_llama_cpp_keeps(name: str) -> None:
    banned = compare(OFF)
    removed = [compare(s, seed) - banned for s in GRID[name] for seed in range(3)]
    assert any(n > 0 for n in removed)  # the comparison sees the filter at work
    assert len(set(removed)) > 3


@pytest.mark.parametrize("name", ["temperature", "dynatemp"])
def test_a_temperature_alone_gives_llama_cpps_probabilities(name: str) -> None:
    for s, seed in itertools.product(GRID[name], range(3)):
        compare(s, seed)


def test_the_whole_chain_in_its_default_order() -> None:
    for seed in range(30):
        compare(some_settings(seed), seed)


@pytest.mark.parametrize("block", range(4))
def test_chains_in_any_order_even_with_repeated_names(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        rng = np.random.default_rng(seed)
        names = [*rng.permutation(DEFAULT_SAMPLERS).tolist(), *rng.choice(DEFAULT_SAMPLERS, 2).tolist()]
        compare(replace(some_settings(seed), samplers=tuple(names)), seed)


def test_a_full_vocabulary_goes_through_the_grouped_selection() -> None:
    vocab = 4160  # wide enough for the selection by groups
    rng = np.random.default_rng(5)
    logits = (rng.normal(size=(2, vocab)) * 3).astype(np.float32)
    sampler = Sampler(vocab, [])
    for s in (Sampling(top_k=20), Sampling(top_k=0), Sampling(top_k=20, typical_p=0.6, xtc_probability=1.0)):
        got = np.array(sampler.distribution(mx.array(logits), sampler.open(s, []), 5))
        for i in range(2):
            want = np.array(reference.by_id(reference.chain(logits[i].tolist(), s, position=5 + i), vocab))
            assert ((got[i] > 0) == (want > 0)).all()
            np.testing.assert_allclose(got[i], want, rtol=3e-4, atol=1e-7)


def test_xtc_removes_every_token_above_the_threshold_but_the_least_likely() -> None:
    p = [0.4, 0.3, 0.15, 0.1, 0.05]
    logits = mx.log(mx.array([p]))
    sampler = Sampler(5, [])
    row = sampler.open(replace(OFF, xtc_probability=1.0, xtc_threshold=0.12), [])
    got = sampler.distribution(logits, row, 0)[0].tolist()
    assert got == pytest.approx([0, 0, 0.5, 1 / 3, 1 / 6], abs=1e-6)
    one_above = sampler.open(replace(OFF, xtc_probability=1.0, xtc_threshold=0.35), [])
    assert sampler.distribution(logits, one_above, 0)[0].tolist() == pytest.approx(p, abs=1e-6)


def test_xtcs_coin_falls_as_often_as_its_probability() -> None:
    n = 4000
    logits = mx.broadcast_to(mx.log(mx.array([0.5, 0.3, 0.2])), (n, 3))
    sampler = Sampler(3, [])
    row = sampler.open(replace(OFF, xtc_probability=0.3, xtc_threshold=0.1, seed=9), [])
    acted = (sampler.distribution(logits, row, 0)[:, 0] == 0).sum().item()
    assert abs(acted / n - 0.3) < 4 * math.sqrt(0.3 * 0.7 / n)


@pytest.mark.parametrize("t", [1e-30, 1e-12, 1e30])
def test_extreme_temperatures_stay_finite(t: float) -> None:
    sampler = Sampler(4, [])
    p = sampler.distribution(mx.array([[1.0, 3.0, -mx.inf, 2.0]]), sampler.open(replace(OFF, temperature=t), []), 0)
    want = [0, 1, 0, 0] if t < 1 else [1 / 3, 1 / 3, 0, 1 / 3]
    assert p[0].tolist() == pytest.approx(want, abs=1e-6)


def test_a_stage_that_the_chain_does_not_name_does_nothing() -> None:
    s = Sampling(top_k=1, temperature=0.0, samplers=("top_p", "infill"), top_p=1.0)
    assert compare(s) == compare(OFF)


def test_the_default_chain_gives_the_recorded_probabilities_of_a_llama_server() -> None:
    """Recordings 043 and 045 of b10622: one prompt's log probabilities before the chain and probabilities after it."""
    before = {7042: -0.24842411279678345, 260: -2.7847447395324707, 4528: -4.35370397567749}
    after = {7042: 0.9597050547599792, 260: 0.04029491916298866}
    logits = mx.full((1, 49_152), -15.0)
    logits[0, mx.array(list(before))] = mx.array(list(before.values()))
    sampler = Sampler(49_152, [])
    p = sampler.distribution(logits, sampler.open(Sampling(), []), 5)[0]
    assert [p[token].item() for token in after] == pytest.approx(list(after.values()), abs=1e-6)
    assert listed((p > 0).sum()) == len(after)
