"""DRY: repeated endings, breakers, and the penalty's shape."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models import reference
from models.settings import OFF
from stoker.models.dry import Breakers, breakers, penalties
from stoker.models.sampling import Sampler

pytestmark = pytest.mark.mlx

ON = replace(OFF, dry_multiplier=0.8, dry_base=1.75, dry_allowed_length=2, dry_penalty_last_n=64)
NONE = Breakers({})


def tails(sequences: list[list[int]]) -> Breakers:
    by_head: dict[int, tuple[tuple[int, ...], ...]] = {}
    for head, *tail in sequences:
        by_head[head] = (*by_head.get(head, ()), tuple(tail))
    return Breakers(by_head)


def test_the_token_that_would_continue_a_repetition_is_penalised() -> None:
    history = [5, 1, 2, 3, 9, 1, 2]  # "1 2" came before, and 3 followed it
    assert penalties(history, ON, NONE) == {3: pytest.approx(0.8)}
    assert penalties([4, 1, 2, 3, 4, 1, 2], ON, NONE) == {3: pytest.approx(0.8 * 1.75)}
    assert penalties([1, 2], ON, NONE) == {}


def test_penalties_equal_the_reference_on_random_histories() -> None:
    seen = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        history = rng.integers(0, int(rng.choice([2, 3, 5])), int(rng.integers(0, 40))).tolist()
        sequences = [[[4]], [[0]], [[2, 1]], [[2, 1], [2], [3, 3, 0]], []][seed % 5]
        s = replace(
            ON,
            dry_allowed_length=int(rng.choice([0, 1, 2, 4])),
            dry_penalty_last_n=int(rng.choice([1, 8, 64])),
        )
        lengths = reference.dry_lengths(history, s, sequences)
        want = {token: pytest.approx(0.8 * 1.75 ** (n - s.dry_allowed_length)) for token, n in lengths.items()}
        assert penalties(history, s, tails(sequences)) == want, (seed, history, sequences)
        seen += len(want)
    assert seen > 200


def test_a_breaker_bounds_the_match_and_is_never_penalised() -> None:
    history = [1, 2, 3, 1, 2, 3, 1, 2]
    assert penalties(history, ON, NONE) == {3: pytest.approx(0.8 * 1.75**3)}
    assert penalties(history, ON, tails([[3]])) == {}
    assert penalties([0, *history], ON, tails([[0]])) == penalties(history, ON, NONE)
    assert penalties(history, ON, tails([[1]])) == {}  # one token stands behind it: too few


def test_breakers_are_found_inside_tokens_and_across_them() -> None:
    pieces = [b"\n", b"a\n", b"ab", b"<", b"x<", b"|", b"|>", b"end", b"<|", b">", b""]
    assert breakers(pieces, ["\n"]).tails == {0: ((),), 1: ((),)}
    known = breakers(pieces, ["<|>"])
    assert known.tails == {3: ((6,),), 4: ((6,),), 8: ((9,),)}
    assert known.limit([6, 3, 0]) == 0
    assert known.limit([2, 9, 8, 0]) == 1
    assert known.limit([6]) == 1  # the first half is missing
    assert not known.alone(3)
    assert breakers(pieces, ["\n"]).alone(1)


def test_an_overlap_may_start_more_than_one_way() -> None:
    pieces = [b"aa", b"a", b"b", b"ab", b"aab"]
    known = breakers(pieces, ["aab"])
    assert set(known.tails[0]) == {(2,), (3,)}
    assert known.tails[4] == ((),)
    assert 2 not in known.tails


def test_an_empty_or_unspellable_breaker_is_harmless() -> None:
    assert breakers([b"a"], [""]).tails == {}
    assert breakers([b"a"], ["az"]).tails == {0: ((),)}
    assert breakers([b"a"], ["\ud800"]).tails == {}  # half a surrogate pair: JSON can bring one


def test_a_long_repetition_does_not_overflow() -> None:
    value = penalties([1] * 500, replace(ON, dry_penalty_last_n=-1, dry_base=4.0), NONE)[1]
    assert value == pytest.approx(0.8 * 4.0**63)  # the largest power of 4 below the largest float32
    assert penalties([1] * 500, replace(ON, dry_penalty_last_n=-1, dry_base=1e38), NONE)[1] == pytest.approx(0.8e38)


def test_the_penalty_reaches_the_distribution_with_the_drafted_prefix() -> None:
    pieces = [b"a", b"b", b"c", b"\n", b"d", b"e"]
    sampler = Sampler(6, pieces)
    logits = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)
    logits[:, 2] += 2.0
    for s in (ON, replace(ON, top_k=4, samplers=("top_k", "dry"))):
        row = sampler.open(s, [0, 1, 2, 4, 5, 3, 4])
        got = np.array(sampler.distribution(mx.array(logits), row, 7, [0, 1]))
        plain = 0.0
        for i in range(3):
            history = [0, 1, 2, 4, 5, 3, 4, 0, 1][: 7 + i]
            left = reference.chain(logits[i].tolist(), s, position=7 + i, history=history, breakers=[[3]])
            np.testing.assert_allclose(got[i], reference.by_id(left, 6), rtol=2e-4, atol=1e-7)
            bare = reference.chain(logits[i].tolist(), replace(s, dry_multiplier=0.0))
            plain += np.abs(got[i] - reference.by_id(bare, 6)).sum()
        assert plain > 0.01  # "a b" came before: c is penalised in the last column


def test_one_breaker_set_is_mapped_once() -> None:
    sampler = Sampler(3, [b"a", b"b", b"\n"])
    first, second = sampler.open(ON, []), sampler.open(replace(ON, seed=5), [])
    assert first.chain is second.chain
    other = sampler.open(replace(ON, dry_multiplier=0.5), [])
    assert other.chain is not first.chain
    assert sampler._breakers.cache_info().misses == 1
