"""GBNF to llguidance's variant of Lark, with exactly the language of the original.

A grammar without recursion becomes one regular expression. One with recursion is cut into lexemes
where that is safe (`lexemes.py`), else every character is a lexeme of its own.
"""

from collections.abc import Mapping

from stoker.text.gbnf import TokenId, parse
from stoker.text.lexemes import Lexemes, Shape, shape
from stoker.text.rules import Alt, Chars, Node, Ref, Repeat, Seq, Token

HEAD = '%llguidance {"no_forcing": true}\n'
"""No forcing: every way to cut a text into tokens is allowed, not only the tokenizer's own."""
DEEPEST = 8
"""Parentheses inside one another that llguidance reads without complaint."""

_RULE, _REGULAR = "g", "G"
"""Lark tells rules from regular expressions by the case of their names."""


def to_lark(text: str, token_id: TokenId = lambda _: None) -> str:
    """Raises GrammarError where llama.cpp could not parse the text."""
    rules = parse(text, token_id)
    regular = _regular(rules)
    writer = _Writer(regular, {name: n for n, name in enumerate(rules)})
    if "root" in regular:
        return writer.document({}, f"start: {writer.terminal('root')}")
    recursive = {name: writer.cut(body) for name, body in rules.items() if name not in regular}
    if writer.lexemes.safe(recursive):
        return writer.document(recursive)
    return _Writer({}, {name: n for n, name in enumerate(rules)}).document(rules)


def _regular(rules: Mapping[str, Node]) -> dict[str, Node]:
    """The rules that use neither themselves, even through others, nor tokens; in the order of their use."""
    found: dict[str, Node] = {}
    size = -1
    while size != (size := len(found)):
        found |= {name: body for name, body in rules.items() if name not in found and _is_regular(body, found)}
    return found


def _is_regular(node: Node, known: Mapping[str, Node]) -> bool:
    match node:
        case Chars():
            return True
        case Token():
            return False
        case Ref(name):
            return name in known
        case Seq(items) | Alt(items):
            return all(_is_regular(item, known) for item in items)
        case Repeat(item):
            return _is_regular(item, known)


class _Writer:
    """Collects terminals on the way."""

    def __init__(self, regular: Mapping[str, Node], numbers: Mapping[str, int]) -> None:
        self._regular, self._numbers = regular, numbers
        self._shapes: dict[str, Shape] = {}
        self._terminals: dict[str, str] = {}
        """Definition → name. GBNF's own names hold no underscore."""
        self._groups: dict[tuple[str, str], str] = {}
        """The same of deep groups, by what they stand in."""
        self.lexemes = Lexemes()
        for name, body in regular.items():
            self._shapes[name] = shape(body, self._shapes)

    def terminal(self, rule: str) -> str:
        return f"R{self._numbers[rule]}"

    def cut(self, node: Node) -> Node:
        """The body with its largest regular parts (but sequences) replaced by references to lexemes."""
        match node:
            case Seq(items):
                return Seq(tuple(self.cut(item) for item in items))
            case Token():
                return node
            case _ if _is_regular(node, self._regular):
                name = self._terminals.setdefault(self.text(node, _REGULAR), f"T_{len(self._terminals)}")
                self.lexemes.shapes[name] = shape(node, self._shapes)
                return Ref(name)
            case Alt(options):
                return Alt(tuple(self.cut(option) for option in options))
            case Repeat(item, least, most):
                return Repeat(self.cut(item), least, most)
            case _:
                return node

    def document(self, rules: Mapping[str, Node], start: str = "") -> str:
        own = [f"r{self._numbers[name]}: {self.text(body)}" for name, body in rules.items()]
        regular = [f"{self.terminal(name)}: {self.text(body, _REGULAR)}" for name, body in self._regular.items()]
        lexemes = [f"{name}: {text}" for text, name in self._terminals.items()]
        groups = [f"{name}: {text}" for (_, text), name in self._groups.items()]
        lines = [start or f"start: r{self._numbers['root']}", *own, *lexemes, *regular, *groups]
        return HEAD + "".join(f"{line}\n" for line in lines)

    def text(self, node: Node, kind: str = _RULE, depth: int = 0) -> str:
        """`kind`: whether it stands in a rule or in a regular expression; `depth`: parentheses around it."""
        match node:
            case Chars(ranges):
                return _class(ranges)
            case Ref(name):
                return self._name(name)
            case Seq(items) | Alt(items):
                between = " | " if isinstance(node, Alt) else " "
                parts = (
                    self._group(x, kind, depth) if isinstance(x, Seq | Alt) else self.text(x, kind, depth)
                    for x in items
                )
                return between.join(parts) or '""'
            case Repeat(item, least, most):
                times = f"{{{least},{'' if most is None else most}}}"
                return f"{self._group(item, kind, depth)}{times}" if most != 0 else '""'
            case Token(id, negated):
                return f"<[{'^' if negated else ''}{id}]>"

    def _group(self, node: Node, kind: str, depth: int) -> str:
        """In parentheses; in a rule of its own where there are too many of them already."""
        if depth < DEEPEST:
            return f"({self.text(node, kind, depth + 1)})"
        return self._groups.setdefault((kind, self.text(node, kind)), f"{kind}_{len(self._groups)}")

    def _name(self, name: str) -> str:
        if name in self.lexemes.shapes:
            return name
        return self.terminal(name) if name in self._regular else f"r{self._numbers[name]}"


def _class(ranges: tuple[tuple[int, int], ...]) -> str:
    """A regular expression with every character spelt by its number. `[a&&b]` matches nothing."""
    if not ranges:
        return "/[a&&b]/"
    return "/[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges) + "]/"
