"""JSON in a text that comes in pieces: cut anywhere, it reads the same."""

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.text import jsonstream
from stoker.text.source import Source, Wait

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def feed(reader: Callable[[Source], Wait[object]], pieces: Sequence[str]) -> tuple[object, str]:
    """What a reader returns of these pieces, and what it leaves unread."""
    source = Source()
    waiting = reader(source)
    rest = list(pieces)
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            return end.value, source.text + "".join(rest)
        if rest:
            source.feed(rest.pop(0))
        else:
            source.ended = True


@given(JSON.filter(lambda value: value is not None), st.lists(st.integers(0, 60), max_size=4))
def test_a_value_is_read_whole_however_its_text_is_cut(value: object, cuts: list[int]) -> None:
    text = json.dumps(value)
    places = sorted({min(cut, len(text)) for cut in cuts})
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    found, rest = feed(jsonstream.whole, [*pieces, " tail"])
    assert found == value
    assert rest == " tail"


def test_its_text_is_passed_on_unchanged_as_it_comes() -> None:
    heard: list[str] = []
    found, rest = feed(lambda source: jsonstream.value(source, heard.append), ['{"a" : [1,', ' "]}"', "] }", "x"])
    assert (found, rest) == (True, "x")
    assert heard == ['{"a" : [1,', ' "]}"', "] }"]


@pytest.mark.parametrize("text", ["", '{"a": 1', '"abc', "[1, 2"])
def test_what_breaks_off_is_no_value(text: str) -> None:
    assert feed(lambda source: jsonstream.value(source, jsonstream.ignore), [text])[0] is False
    assert feed(jsonstream.whole, [text])[0] is None


def test_a_string_is_asked_for_by_name() -> None:
    assert feed(jsonstream.string, ['"a\\"b"', ","]) == ('a"b', ",")
    assert feed(jsonstream.string, ["12"]) == (None, "12")


def test_other_values_have_no_members_and_no_items() -> None:
    assert jsonstream.members([1]) == {}
    assert jsonstream.items({"a": 1}) == ()
    assert jsonstream.items([1]) == [1]
    assert jsonstream.parsed('"a\tb"') == "a\tb"
    assert jsonstream.parsed("[" * 100_000) is None
