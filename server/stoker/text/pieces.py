"""The bytes that a token stands for, from the way its vocabulary spells them."""

import re

SPACE = "▁"
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _printable_bytes() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 characters stand for themselves, the other bytes follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}


ALPHABET = _printable_bytes()


def byte_level(text: str) -> bytes:
    """Of a byte-level BPE token. A character outside the alphabet stands for itself."""
    try:
        return bytes([ALPHABET[character] for character in text])
    except KeyError:
        return b"".join(
            bytes([ALPHABET[character]]) if character in ALPHABET else character.encode() for character in text
        )


def sentencepiece(text: str) -> bytes:
    """Of a SentencePiece token: a byte if it names one, else text whose `▁` are spaces."""
    if named := BYTE_TOKEN.fullmatch(text):
        return bytes([int(named[1], 16)])
    return text.replace(SPACE, " ").encode("utf-8", "replace")
