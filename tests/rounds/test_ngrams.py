from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.rounds.ngrams import Ngrams, Sizes


def scan(tokens: Sequence[int], sizes: Sizes) -> Sequence[int]:
    """The definition: longest n first, latest earlier occurrence that has a follower."""
    for n in range(sizes.longest, sizes.shortest - 1, -1):
        last = tuple(tokens[-n:])
        starts = [i for i in range(len(tokens) - n) if tuple(tokens[i : i + n]) == last]
        if len(tokens) >= n and len(starts) >= sizes.hits:
            return tokens[starts[-1] + n : starts[-1] + n + sizes.most]
    return ()


@given(
    st.lists(st.integers(0, 3), max_size=60),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 9),
    st.integers(1, 3),
)
def test_the_index_answers_as_a_scan_does_after_every_token(
    tokens: list[int], shortest: int, more: int, most: int, hits: int
) -> None:
    sizes = Sizes(shortest + more, shortest, most, hits)
    index = Ngrams(sizes)
    for n, token in enumerate(tokens, 1):
        index.extend([token])
        assert list(index.look_up()) == list(scan(tokens[:n], sizes))


def test_the_longest_match_wins_over_a_later_shorter_one() -> None:
    index = Ngrams(Sizes(), [1, 2, 3, 9, 2, 3, 8, 1, 2, 3])
    assert list(index.look_up())[:1] == [9]


def test_nothing_is_found_in_a_text_without_repeats() -> None:
    assert not Ngrams(Sizes(), range(50)).look_up()


@pytest.mark.parametrize("wrong", [(3, 4), (17, 2), (3, 0)])
def test_impossible_sizes_are_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="n-grams"):
        Sizes(*wrong)
    for most in (0, 65):
        with pytest.raises(ValueError, match="proposals"):
            Sizes(most=most)
