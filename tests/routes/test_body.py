"""JSON in and out, and the library's words for what is no JSON."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import ServerFault
from stoker.routes.body import DEEPEST, dump, members, parse


def complaint(text: str | bytes) -> str:
    with pytest.raises(ServerFault) as caught:
        parse(text.encode() if isinstance(text, str) else text)
    return caught.value.message


def test_the_recorded_complaints_are_word_for_word() -> None:
    assert complaint("") == (
        "[json.exception.parse_error.101] parse error at line 1, column 1: attempting to parse an empty input; "
        "check that your input string or stream contains the expected JSON"
    )
    assert complaint("{bad") == (
        "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing object key - "
        "invalid literal; last read: '{b'; expected string literal"
    )


VALUE = "syntax error while parsing value - "
KEY = "syntax error while parsing object key - "
CASES = [
    (" ", 1, 2, VALUE + "unexpected end of input; expected '[', '{', or a literal"),
    ("{", 1, 2, KEY + "unexpected end of input; expected string literal"),
    ('{"a" 1}', 1, 6, "syntax error while parsing object separator - unexpected number literal; expected ':'"),
    ('{"a":1', 1, 7, "syntax error while parsing object - unexpected end of input; expected '}'"),
    ('{"a":1,}', 1, 8, KEY + "unexpected '}'; expected string literal"),
    ('{"a":tru}', 1, 9, VALUE + "invalid literal; last read: '\"a\":tru}'"),
    ('{"a":\n x}', 2, 2, VALUE + "invalid literal; last read: '\"a\":<U+000A> x'"),
    ("[1 2]", 1, 4, "syntax error while parsing array - unexpected number literal; expected ']'"),
    ("[1,]", 1, 4, VALUE + "unexpected ']'; expected '[', '{', or a literal"),
    ("[null,true,[", 1, 13, VALUE + "unexpected end of input; expected '[', '{', or a literal"),
    ("{} x", 1, 4, VALUE + "invalid literal; last read: '{} x'; expected end of input"),
    ("{}{}", 1, 3, VALUE + "unexpected '{'; expected end of input"),
    ("NaN", 1, 1, VALUE + "invalid literal; last read: 'N'"),
    ("-", 1, 2, VALUE + "invalid number; expected digit after '-'; last read: '-'"),
    ("1.x", 1, 3, VALUE + "invalid number; expected digit after '.'; last read: '1.x'"),
    ("1ex", 1, 3, VALUE + "invalid number; expected '+', '-', or digit after exponent; last read: '1ex'"),
    ("1e+", 1, 4, VALUE + "invalid number; expected digit after exponent sign; last read: '1e+'"),
    ("01", 1, 2, VALUE + "unexpected number literal; expected end of input"),
    ("[12.5e3,0\n;", 2, 1, "syntax error while parsing array - invalid literal; last read: '0<U+000A>;'; expected ']'"),
    ('"a', 1, 3, VALUE + "invalid string: missing closing quote; last read: '\"a'"),
    ('"\\x"', 1, 3, VALUE + "invalid string: forbidden character after backslash; last read: '\"\\x'"),
    ('"\\u12g"', 1, 6, VALUE + "invalid string: '\\u' must be followed by 4 hex digits; last read: '\"\\u12g'"),
    (
        '"a\nb"',
        2,
        0,
        VALUE
        + "invalid string: control character U+000A (LF) must be escaped to \\u000A or \\n; last read: '\"a<U+000A>'",
    ),
    (
        '"\x01"',
        1,
        2,
        VALUE + "invalid string: control character U+0001 (SOH) must be escaped to \\u0001; last read: '\"<U+0001>'",
    ),
    (
        '"\\ud800x"',
        1,
        8,
        VALUE + "invalid string: surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF; last read: '\"\\ud800x'",
    ),
    (
        '"\\udc00"',
        1,
        7,
        VALUE + "invalid string: surrogate U+DC00..U+DFFF must follow U+D800..U+DBFF; last read: '\"\\udc00'",
    ),
    ('"é漢\\x"', 1, 8, VALUE + "invalid string: forbidden character after backslash; last read: '\"é漢\\x'"),
    (b'"\xff"', 1, 2, VALUE + "invalid string: ill-formed UTF-8 byte; last read: '\"\ufffd'"),
    (b'"\xc3x"', 1, 3, VALUE + "invalid string: ill-formed UTF-8 byte; last read: '\"\ufffdx'"),
    (b'"\xe6\xbc', 1, 4, VALUE + "invalid string: ill-formed UTF-8 byte; last read: '\"\ufffd'"),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), CASES)
def test_a_complaint_names_place_context_and_what_was_expected(
    text: str | bytes, line: int, column: int, said: str
) -> None:
    assert complaint(text) == f"[json.exception.parse_error.101] parse error at line {line}, column {column}: {said}"


def test_values_beyond_a_double_and_nesting_beyond_reason_are_refused() -> None:
    assert complaint("1e999") == "[json.exception.out_of_range.406] number overflow parsing '1e999'"
    for level in ("[", '{"a":', '[{"a":'):
        assert "nested too deeply" in complaint(level * 200_000)
    assert "nested too deeply" in complaint("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))
    assert parse(b"[" * DEEPEST + b"]" * DEEPEST)
    assert parse(b"[" + b"[]," * 1000 + b'"' + b"[" * 1000 + b'\\""]'), "neither many nor quoted ones are deep"


def test_a_deep_text_that_breaks_off_is_read_to_its_fault() -> None:
    said = complaint("[" * DEEPEST + "x")
    assert said.startswith(f"[json.exception.parse_error.101] parse error at line 1, column {DEEPEST + 1}: ")


def test_large_integers_become_floats() -> None:
    assert parse(b"18446744073709551615") == 2**64 - 1
    assert isinstance(parse(b"18446744073709551616"), float)
    assert isinstance(parse(b"1" + b"0" * 5000 + b"e-5000"), float)
    assert isinstance(parse(b"1" + b"0" * 40), float)


def test_whole_characters_in_escapes_pass_and_so_does_a_byte_order_mark() -> None:
    assert parse(b'"\\ud83d\\ude00"') == "😀"
    assert parse(b'"\\\\ud83d"') == "\\ud83d"
    assert parse(b'\xef\xbb\xbf{"a":"\xe6\xbc\xa2"}') == {"a": "漢"}


def test_answers_are_compact_unescaped_and_never_hold_nan() -> None:
    assert dump({"b": "é\n", "a": [1.0, math.inf, (math.nan,), {"c": True}]}) == (
        '{"b":"é\\n","a":[1.0,null,[null],{"c":true}]}'.encode()
    )
    assert dump("\ud800") == b'"?"'


def test_only_objects_have_members() -> None:
    assert members([1]) == {}
    assert members({"a": 1}) == {"a": 1}


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is a number to Python only")


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.binary())
def test_whatever_comes_is_parsed_or_refused_in_words(text: str | bytes) -> None:
    raw = text.encode() if isinstance(text, str) else text
    try:
        json.loads(raw, parse_constant=_no_json)
    except ValueError:
        assert "parse error at line" in complaint(raw)
    else:
        parse(raw)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values, st.data())
def test_a_text_cut_anywhere_gets_the_same_verdict_as_from_python(value: object, data: st.DataObject) -> None:
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 1])))
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        json.loads(cut)
    except ValueError:
        assert "parse error at line" in complaint(cut)
    else:
        assert parse(cut.encode()) == json.loads(cut)
