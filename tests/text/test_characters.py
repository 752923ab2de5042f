from hypothesis import given
from hypothesis import strategies as st

from stoker.text.characters import LAST, SURROGATES, Ranges, complement, disjoint, overlap, union

RANGES = st.lists(
    st.tuples(st.integers(0, LAST), st.integers(0, 300)).map(lambda pair: (pair[0], min(pair[0] + pair[1], LAST))),
    max_size=6,
).map(union)


def has(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def test_ranges_that_touch_or_overlap_become_one() -> None:
    assert union([(5, 9), (1, 3), (4, 4), (20, 25), (22, 23)]) == ((1, 9), (20, 25))


def test_surrogates_are_no_characters() -> None:
    first, last = SURROGATES
    assert union([(first - 1, last + 1)]) == ((first - 1, first - 1), (last + 1, last + 1))
    assert union([SURROGATES]) == ()
    assert complement(()) == ((0, first - 1), (last + 1, LAST))


@given(RANGES, st.integers(0, LAST))
def test_a_character_is_in_a_set_or_in_its_complement(ranges: Ranges, code: int) -> None:
    if not SURROGATES[0] <= code <= SURROGATES[1]:
        assert has(ranges, code) != has(complement(ranges), code)
    assert complement(complement(ranges)) == ranges


@given(RANGES, RANGES)
def test_sets_overlap_unless_they_are_disjoint(a: Ranges, b: Ranges) -> None:
    assert overlap(a, b) == overlap(b, a) == (not disjoint([a, b]))
    assert not overlap(a, complement(a))
    assert overlap(a, b) == any(has(b, edge) for pair in a for edge in pair) or any(has(a, e) for p in b for e in p)
