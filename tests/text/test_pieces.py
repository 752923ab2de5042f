import pytest

from stoker.text.pieces import ALPHABET, byte_level, sentencepiece


def test_the_alphabet_names_each_byte_once() -> None:
    assert sorted(ALPHABET.values()) == list(range(256))
    assert byte_level("".join(ALPHABET)) == bytes(ALPHABET.values())


@pytest.mark.parametrize(
    ("text", "data"),
    [("Ġthe", b" the"), ("Ċ", b"\n"), ("Ã©", "é".encode()), ("漢", "漢".encode()), ("Ġ漢", " 漢".encode())],
)
def test_a_byte_level_token_is_spelled_in_that_alphabet(text: str, data: bytes) -> None:
    assert byte_level(text) == data


@pytest.mark.parametrize(
    ("text", "data"),
    [("▁the", b" the"), ("<0x0A>", b"\n"), ("<0xe4>", b"\xe4"), ("<0x0>", b"<0x0>"), ("漢", "漢".encode())],
)
def test_a_sentencepiece_token_is_text_or_a_byte(text: str, data: bytes) -> None:
    assert sentencepiece(text) == data
