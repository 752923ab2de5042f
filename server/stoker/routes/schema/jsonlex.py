"""Why a text is not JSON, in the words of the library that llama-server uses (nlohmann::json 3.12).

Only texts that Python already refused come here, so clarity beats speed. Position and "last read"
follow that library's habits: columns count bytes of the line, the byte just read included; the
"last read" text begins where the latest string or number began, not where the token began.
"""

from dataclasses import dataclass

EMPTY = "attempting to parse an empty input; check that your input string or stream contains the expected JSON"
_NAMES = {"{": "'{'", "}": "'}'", "[": "'['", "]": "']'", ":": "':'", ",": "','"}
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_DIGITS = b"0123456789"
_CONTROL = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI"),
    *("DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)
_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


class LexicalError(Exception):
    """The text breaks the lexical rules; the message says how."""


@dataclass(frozen=True, slots=True)
class Token:
    """`name` is how an error calls it; `kind` is one of `{}[]:,`, `string`, `value` or `end`."""

    kind: str
    name: str


class Lexer:
    """Bytes to tokens. `line` and `column` stand at the byte read last."""

    def __init__(self, text: bytes) -> None:
        self.text = text.removeprefix(b"\xef\xbb\xbf")
        self.at = 0
        self.line = 1
        self.column = 0
        self.read = bytearray()

    def get(self) -> bytes:
        """The next byte, or nothing at the end (which still moves the column)."""
        byte = self.text[self.at : self.at + 1]
        self.at += 1
        self.column += 1
        self.read += byte
        if byte == b"\n":
            self.line += 1
            self.column = 0
        return byte

    def unget(self, byte: bytes) -> None:
        self.at -= 1
        if self.column:
            self.column -= 1
        else:
            self.line -= 1
        if byte:
            self.read.pop()

    def next(self) -> Token:
        byte = self.get()
        while byte in (b" ", b"\t", b"\r", b"\n"):
            byte = self.get()
        if byte == b"":
            return Token("end", "end of input")
        if byte.decode("latin-1") in _NAMES:
            sign = byte.decode("latin-1")
            return Token(sign, _NAMES[sign])
        if byte in _LITERALS:
            return self.literal(_LITERALS[byte])
        if byte == b'"':
            self.read = bytearray(byte)
            return self.string()
        if byte == b"-" or byte in _DIGITS:
            self.read = bytearray(byte)
            return self.number(byte)
        raise LexicalError("invalid literal")

    def literal(self, word: bytes) -> Token:
        for expected in word[1:]:
            if self.get() != bytes((expected,)):
                raise LexicalError("invalid literal")
        return Token("value", f"{word.decode()} literal")

    def number(self, byte: bytes) -> Token:
        if byte == b"-":
            byte = self.get()
            self.demand_digit(byte, "invalid number; expected digit after '-'")
        byte = self.get() if byte == b"0" else self.digits()
        if byte == b".":
            self.demand_digit(self.get(), "invalid number; expected digit after '.'")
            byte = self.digits()
        if byte in (b"e", b"E"):
            byte = self.get()
            if byte in (b"+", b"-"):
                self.demand_digit(self.get(), "invalid number; expected digit after exponent sign")
            else:
                self.demand_digit(byte, "invalid number; expected '+', '-', or digit after exponent")
            byte = self.digits()
        self.unget(byte)
        return Token("value", "number literal")

    def digits(self) -> bytes:
        """Reads on to the first byte that is no digit, and returns it."""
        byte = self.get()
        while byte and byte in _DIGITS:
            byte = self.get()
        return byte

    def demand_digit(self, byte: bytes, complaint: str) -> None:
        if not byte or byte not in _DIGITS:
            raise LexicalError(complaint)

    def string(self) -> Token:
        while (byte := self.get()) != b'"':
            if byte == b"":
                raise LexicalError("invalid string: missing closing quote")
            if byte == b"\\":
                self.escape()
            elif byte < b" ":
                raise LexicalError(_control(byte[0]))
            elif byte >= b"\x80":
                self.wide(byte)
        return Token("string", "string literal")

    def escape(self) -> None:
        byte = self.get()
        if byte == b"u":
            self.surrogates()
        elif not byte or byte not in b'"\\/bfnrt':
            raise LexicalError("invalid string: forbidden character after backslash")

    def surrogates(self) -> None:
        first = self.code()
        if 0xD800 <= first <= 0xDBFF:
            complaint = "invalid string: surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF"
            if self.get() != b"\\" or self.get() != b"u" or not 0xDC00 <= self.code() <= 0xDFFF:
                raise LexicalError(complaint)
        elif 0xDC00 <= first <= 0xDFFF:
            raise LexicalError("invalid string: surrogate U+DC00..U+DFFF must follow U+D800..U+DBFF")

    def code(self) -> int:
        value = 0
        for _ in range(4):
            byte = self.get()
            if not byte or byte not in b"0123456789abcdefABCDEF":
                raise LexicalError("invalid string: '\\u' must be followed by 4 hex digits")
            value = value * 16 + int(byte, 16)
        return value

    def wide(self, byte: bytes) -> None:
        """The rest of a character of two to four bytes."""
        char = bytearray(byte)
        while True:
            try:
                char.decode()
            except UnicodeDecodeError as error:
                if error.reason != "unexpected end of data":
                    raise LexicalError("invalid string: ill-formed UTF-8 byte") from None
            else:
                return
            char += self.get() or b'"'


def _control(code: int) -> str:
    spelled = f"\\u{code:04X}" + (f" or {_SHORT[code]}" if code in _SHORT else "")
    return f"invalid string: control character U+{code:04X} ({_CONTROL[code]}) must be escaped to {spelled}"


_CLOSING = {"{": "}", "[": "]"}


class Parser:
    """Walks a text until it breaks the grammar; `complaint` is the whole message."""

    def __init__(self, text: bytes) -> None:
        self.lexer = Lexer(text)
        self.open: list[str] = []

    def complaint(self) -> str | None:
        """The message for the first fault, None if there is none."""
        if not self.lexer.text:
            return f"parse error at line 1, column 1: {EMPTY}"
        try:
            self.document()
        except _GrammarError as fault:
            return f"parse error at line {self.lexer.line}, column {self.lexer.column}: {fault}"
        return None

    def take(self, context: str, expected: str = "") -> Token:
        try:
            return self.lexer.next()
        except LexicalError as mismatch:
            raise _GrammarError(context, f"{mismatch}; last read: '{self.shown()}'", expected) from None

    def shown(self) -> str:
        text = self.lexer.read.decode("utf-8", "replace")
        return "".join(f"<U+{ord(char):04X}>" if char < " " else char for char in text)

    def document(self) -> None:
        self.value(self.take("value"))
        while self.open:
            self.follow()
        token = self.take("value", "end of input")
        self.demand(token, "end", "value", "end of input")

    def value(self, token: Token) -> None:
        """One value whose first token is read; what it opens is left open. No call a level: texts may be deep."""
        while token.kind in ("{", "["):
            inside = self.take("object key", "string literal") if token.kind == "{" else self.take("value")
            if inside.kind == _CLOSING[token.kind]:
                return
            if token.kind == "{":
                inside = self.member(inside)
            else:
                self.open.append("]")
            token = inside
        if token.kind not in ("string", "value"):
            raise _GrammarError("value", f"unexpected {token.name}", "'[', '{', or a literal")

    def member(self, token: Token) -> Token:
        """A key and the colon; returns the first token of its value."""
        self.demand(token, "string", "object key", "string literal")
        self.demand(self.take("object separator", "':'"), ":", "object separator", "':'")
        self.open.append("}")
        return self.take("value")

    def follow(self) -> None:
        """What comes after a value inside an array or an object."""
        closing = self.open[-1]
        context = "object" if closing == "}" else "array"
        token = self.take(context, f"'{closing}'")
        if token.kind == ",":
            if closing == "}":
                self.open.pop()
                self.value(self.member(self.take("object key", "string literal")))
            else:
                self.value(self.take("value"))
            return
        self.demand(token, closing, context, f"'{closing}'")
        self.open.pop()

    def demand(self, token: Token, kind: str, context: str, expected: str) -> None:
        if token.kind != kind:
            raise _GrammarError(context, f"unexpected {token.name}", expected)


class _GrammarError(Exception):
    def __init__(self, context: str, what: str, expected: str) -> None:
        tail = f"; expected {expected}" if expected else ""
        super().__init__(f"syntax error while parsing {context} - {what}{tail}")
