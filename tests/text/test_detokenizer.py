import itertools

from hypothesis import given
from hypothesis import strategies as st

from stoker.text.detokenizer import Detokenizer


def test_a_cut_character_is_withheld_until_it_is_whole() -> None:
    detokenizer = Detokenizer()
    smile = "😀".encode()
    assert detokenizer.push(smile[:2]) == ""
    assert not detokenizer.whole
    assert detokenizer.push(smile[2:] + b"!") == "😀!"
    assert detokenizer.whole


def test_bytes_that_never_make_a_character_become_the_replacement_character() -> None:
    assert Detokenizer().push(b"a\xffb") == "a\ufffdb"


@given(st.text(), st.lists(st.integers(0, 40)))
def test_any_chunking_of_a_text_gives_the_text(text: str, cuts: list[int]) -> None:
    data, detokenizer, out = text.encode(), Detokenizer(), ""
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, stop in itertools.pairwise(places):
        out += detokenizer.push(data[start:stop])
    assert out == text
    assert detokenizer.whole
