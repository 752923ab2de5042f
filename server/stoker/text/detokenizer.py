"""Token bytes in, whole characters out. Knows no token ids and no vocabulary."""

import codecs


class Detokenizer:
    """Holds back the bytes of a character until its last one has come.

    Bytes that can never become a character read as U+FFFD, as llama-server prints them.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, piece: bytes) -> str:
        """The text that `piece` completes; empty while a character is still open."""
        return self._decoder.decode(piece)

    @property
    def whole(self) -> bool:
        """True when no character is open."""
        return not self._decoder.getstate()[0]
