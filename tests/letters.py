"""128 tokens for tiny random models: printable ASCII, pieces that JSON is made of, ends, a control token."""

from collections.abc import Iterable
from dataclasses import dataclass, field

END, OTHER_END, CONTROL, SILENT = 0, 1, 2, 3
PIECES = (
    b"<end>", b"<other end>", b"<control>", b"", b'{"', b'":', b'",', b'"}', b'": ', b'", "', b"\n", b"\n  ",
    b"true", b"false", b"null", b"[]", b"],", b"}}", b"[{", b"},", b"12", b"yes", b"no", b"ab", b"abc", b"\t",
    b"\xc3", b"\xa9", b"0.", b"e+", b"\\u", b"\\n",
)  # fmt: skip


@dataclass(frozen=True)
class Letters:
    """As `text.tokenizer.Tokenizer`; encodes by the longest piece."""

    pieces: list[bytes] = field(default_factory=lambda: [*PIECES, *(bytes((code,)) for code in range(32, 127)), b"\r"])
    hidden: frozenset[int] = frozenset({END, OTHER_END, CONTROL})
    end_ids: frozenset[int] = frozenset({END, OTHER_END})

    def encode(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        data, ids = text.encode(), list[int]()
        while data:
            fitting = [
                id
                for id, piece in enumerate(self.pieces)
                if piece and data.startswith(piece) and (parse_special or id not in self.hidden)
            ]
            ids.append(max(fitting, key=lambda id: len(self.pieces[id])))
            data = data[len(self.pieces[ids[-1]]) :]
        return ids

    def text(self, ids: Iterable[int]) -> str:
        """What a client would see of these tokens."""
        return b"".join(self.pieces[id] for id in ids if id not in self.hidden).decode("utf-8", "replace")
