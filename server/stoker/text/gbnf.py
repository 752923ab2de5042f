"""Reads GBNF, llama.cpp's grammar notation, as llama.cpp reads it (its grammars/README.md and src/llama-grammar.cpp).

Strict where it is: a grammar that llama-server refuses is refused here. One difference: left recursion
is accepted, since nothing here needs to forbid it.
"""

from collections.abc import Callable

from stoker.text.characters import LAST, complement, union
from stoker.text.rules import Alt, Chars, GrammarError, Node, Ref, Repeat, Seq, Token, check_depth, references

MOST_REPETITIONS = 2000
"""llama.cpp's bound on the numbers in braces."""
DEEPEST = 40
"""Parentheses inside one another."""

TokenId = Callable[[str], int | None]
"""The id of the one token that a text is, if it is one."""


_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(text: str, token_id: TokenId = lambda _: None) -> dict[str, Node]:
    """The rules by name, `root` among them. Raises GrammarError."""
    rules = _Parser(text, token_id).rules()
    if "root" not in rules:
        raise GrammarError("the grammar has no rule named root")
    for name in {name for body in rules.values() for name in references(body)}:
        if name not in rules:
            raise GrammarError(f"rule {name} is used and not defined")
    check_depth(rules)
    return rules


class _Parser:
    def __init__(self, text: str, token_id: TokenId) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._token_id = token_id

    def rules(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        self._space(newlines=True)
        while self._at < len(self._text):
            name = self._name()
            self._space()
            self._expect("::=")
            self._space(newlines=True)
            found[name] = self._options(nested=False)
            if self._at < len(self._text) and self._peek() not in "\r\n":
                raise self._error("a rule ends with its line")
            self._space(newlines=True)
        return found

    def _options(self, *, nested: bool) -> Node:
        options = [self._sequence(nested)]
        while self._peek() == "|":
            self._at += 1
            self._space(newlines=True)
            options.append(self._sequence(nested))
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self, nested: bool) -> Node:
        items: list[Node] = []
        while (char := self._peek()) and char not in "|)\r\n":
            if char in "*+?{":
                if not items:
                    raise self._error(f"nothing stands before {char}")
                items[-1] = Repeat(items[-1], *self._counts())
            else:
                items.append(self._item(char))
            self._space(newlines=nested)
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def _item(self, char: str) -> Node:
        if char == '"':
            return self._literal()
        if char == "[":
            return self._class()
        if char == "(":
            return self._group()
        if char == ".":
            self._at += 1
            return Chars(complement(()))
        if char in "<!":
            return self._token()
        return Ref(self._name())

    def _literal(self) -> Node:
        self._at += 1
        items: list[Node] = []
        while self._peek() != '"':
            code = self._char()
            items.append(Chars(union([(code, code)])))
        self._at += 1
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def _class(self) -> Node:
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        parts: list[tuple[int, int]] = []
        while self._peek() != "]":
            low = high = self._char()
            if self._peek() == "-" and self._peek(1) not in ("]", ""):
                self._at += 1
                high = self._char()
            parts.append((low, high))
        self._at += 1
        found = union(part for part in parts if part[0] <= part[1])
        return Chars(complement(found) if negated else found)

    def _group(self) -> Node:
        self._at += 1
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error("too many parentheses inside one another")
        self._space(newlines=True)
        inner = self._options(nested=True)
        self._expect(")")
        self._depth -= 1
        return inner

    def _token(self) -> Node:
        negated = self._peek() == "!"
        self._at += negated
        self._expect("<")
        end = self._text.find(">", self._at)
        if end < 0:
            raise self._error("a token ends with >")
        name = self._text[self._at : end]
        self._at = end + 1
        if name.startswith("[") and name.endswith("]") and name[1:-1].isdecimal() and name.isascii():
            return Token(int(name[1:-1]), negated)
        id = self._token_id(f"<{name}>")
        if id is None:
            raise self._error(f"<{name}> is not one token")
        return Token(id, negated)

    def _counts(self) -> tuple[int, int | None]:
        char = self._text[self._at]
        self._at += 1
        if char in _REPEATS:
            return _REPEATS[char]
        self._space(newlines=True)
        least = self._number()
        most: int | None = least
        self._space(newlines=True)
        if self._peek() == ",":
            self._at += 1
            self._space(newlines=True)
            most = None if self._peek() == "}" else self._number()
            self._space(newlines=True)
        self._expect("}")
        if max(least, most or 0) > MOST_REPETITIONS or (most is not None and most < least):
            raise self._error("no sane number of repetitions")
        return least, most

    def _number(self) -> int:
        begin = self._at
        while self._peek() in "0123456789" and self._peek():
            self._at += 1
        if not 0 < self._at - begin < 10:
            raise self._error("a number is expected")
        return int(self._text[begin : self._at])

    def _name(self) -> str:
        begin = self._at
        while (char := self._peek()) and char.isascii() and (char.isalnum() or char == "-"):
            self._at += 1
        if begin == self._at:
            raise self._error("a name is expected")
        return self._text[begin : self._at]

    def _char(self) -> int:
        char = self._peek()
        if not char:
            raise self._error("the text ends inside quotes or brackets")
        self._at += 1
        if char != "\\":
            return ord(char)
        kind = self._peek()
        self._at += 1
        if kind in _ESCAPES:
            return ord(_ESCAPES[kind])
        digits = self._text[self._at : self._at + _HEX_DIGITS.get(kind, 0)]
        if not digits or len(digits) != _HEX_DIGITS[kind] or not all(c in "0123456789abcdefABCDEF" for c in digits):
            raise self._error(f"\\{kind} is no escape")
        self._at += len(digits)
        return min(int(digits, 16), LAST)

    def _space(self, *, newlines: bool = False) -> None:
        while char := self._peek():
            if char == "#":
                while self._peek() not in ("", "\r", "\n"):
                    self._at += 1
            elif char in " \t" or (newlines and char in "\r\n"):
                self._at += 1
            else:
                return

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _expect(self, what: str) -> None:
        if not self._text.startswith(what, self._at):
            raise self._error(f"{what} is expected")
        self._at += len(what)

    def _error(self, what: str) -> GrammarError:
        line = self._text.count("\n", 0, self._at) + 1
        return GrammarError(f"line {line}: {what}, near {self._text[self._at : self._at + 20]!r}")
