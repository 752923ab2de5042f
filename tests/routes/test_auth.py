"""Keys; the gate that asks for them is in test_gate.py."""

import pytest
from starlette.datastructures import Headers

from stoker.routes.auth import PUBLIC, given_key, may_pass

KEYS = ("one", "schlüssel")


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, ""),
        ({"authorization": "Bearer one"}, "one"),
        ({"authorization": "one"}, "one"),
        ({"x-api-key": "one"}, "one"),
        ({"authorization": "Bearer two", "x-api-key": "one"}, "two"),
    ],
)
def test_a_key_may_come_in_either_header(headers: dict[str, str], key: str) -> None:
    assert given_key(Headers(headers)) == key
    assert may_pass(KEYS, "/completion", Headers(headers)) is (key == "one")


def test_without_keys_everybody_may_pass_and_some_paths_are_open_to_all() -> None:
    assert may_pass((), "/completion", Headers({}))
    assert all(may_pass(KEYS, path, Headers({})) for path in PUBLIC)
    assert not may_pass(KEYS, "/health/", Headers({}))


def test_a_key_need_not_be_ascii() -> None:
    header = Headers(raw=[(b"x-api-key", "schlüssel".encode("latin-1"))])
    assert may_pass(KEYS, "/props", header)
