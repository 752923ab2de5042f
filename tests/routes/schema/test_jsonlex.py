"""That the parser of complaints and Python's agree on what is JSON; its words are in tests/routes/test_body.py."""

import json

from hypothesis import given
from hypothesis import strategies as st

from stoker.routes.schema.jsonlex import Parser

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_what_is_json_gets_no_complaint(value: object, indent: int | None) -> None:
    assert Parser(json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "replace")).complaint() is None


@given(VALUES, st.integers(0, 80), st.sampled_from([b"", b",", b"]", b"}", b'"', b"x", b"\\", b"\xff", b"\0"]))
def test_a_complaint_comes_exactly_where_python_refuses_too(value: object, place: int, put: bytes) -> None:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    text = text[:place] + put + text[place + 1 :]
    try:
        json.loads(text.decode())
    except ValueError:
        refused = True
    else:
        refused = False
    assert (Parser(text).complaint() is not None) is refused


def test_a_text_may_be_deep() -> None:
    assert Parser(b'[{"a":' * 20_000 + b"1" + b"}]" * 20_000).complaint() is None
    assert Parser(b"[" * 50_000).complaint() is not None
