"""May a grammar be cut into lexemes? llguidance's lexer takes the longest match and never goes back.

A lexeme is a regular expression that a rule uses. Cutting is safe if the lexer can never take the wrong
one: whatever may come next, the next character tells which lexeme it belongs to. Then masks are some
hundred times cheaper than with a lexeme for each character, which is always right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stoker.text.characters import Ranges, disjoint, overlap, union
from stoker.text.rules import Alt, Chars, Node, Ref, Repeat, Seq, Token

MOST = 400
"""Lexemes beyond which nobody checks: each stands for its character."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the lexer's decisions depend on, of a regular expression."""

    nullable: bool
    first: Ranges
    """Characters that a word may begin with."""
    further: Ranges
    """Characters that may go on after a whole word."""
    all: Ranges
    clear: bool
    """True: at every point the next character tells where in the expression it belongs."""

    @property
    def longer(self) -> Ranges:
        """Characters that the lexer might swallow after a whole word."""
        return self.further if self.clear else self.all


def shape(node: Node, rules: Mapping[str, Shape]) -> Shape:
    """`rules`: the shapes of the regular rules that it names."""
    match node:
        case Chars(ranges):
            return Shape(False, ranges, (), ranges, True)
        case Ref(rule):
            return rules[rule]
        case Seq(items):
            return _sequence([shape(item, rules) for item in items])
        case Alt(options):
            return _options([shape(option, rules) for option in options])
        case Repeat(item, least, most):
            return _repeated(shape(item, rules), least, most)
        case Token():
            raise TypeError("a token is no regular expression")


def _sequence(parts: list[Shape]) -> Shape:
    whole = Shape(True, (), (), (), True)
    for part in parts:
        ahead = (*whole.further, *(whole.first if whole.nullable else ()))
        whole = Shape(
            nullable=whole.nullable and part.nullable,
            first=union([*whole.first, *(part.first if whole.nullable else ())]),
            further=union([*part.further, *([*whole.further, *part.first] if part.nullable else [])]),
            all=union([*whole.all, *part.all]),
            clear=whole.clear and part.clear and not overlap(union(ahead), part.first),
        )
    return whole


def _options(parts: list[Shape]) -> Shape:
    return Shape(
        nullable=any(part.nullable for part in parts),
        first=union(pair for part in parts for pair in part.first),
        further=union(pair for part in parts for pair in part.further),
        all=union(pair for part in parts for pair in part.all),
        clear=disjoint(part.first for part in parts) and all(part.clear for part in parts),
    )


def _repeated(part: Shape, least: int, most: int | None) -> Shape:
    if most == 0:
        return Shape(True, (), (), (), True)
    again = most is None or most > 1
    return Shape(
        nullable=part.nullable or least == 0,
        first=part.first,
        further=union([*part.further, *(part.first if most is None or most > least else ())]),
        all=part.all,
        clear=part.clear and not (again and (part.nullable or overlap(part.further, part.first))),
    )


@dataclass(slots=True)
class Lexemes:
    """The lexemes of a grammar's rules, as they are met: name → shape."""

    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])

    def safe(self, rules: Mapping[str, Node]) -> bool:
        """`rules`: bodies made of Seq, Alt and Repeat, of references to lexemes and to other rules, and of tokens."""
        if len(self.shapes) > MOST:
            return False
        follow = _Follow(rules, self.shapes)
        together = [follow.first(Ref("root")), *(follow.after[name] for name in self.shapes)]
        return all(map(self._apart, together)) and not any(
            overlap(shape.longer, self.shapes[next].first)
            for name, shape in self.shapes.items()
            for next in follow.after[name]
        )

    def _apart(self, names: Iterable[str]) -> bool:
        """True if the first character tells these lexemes apart."""
        return disjoint(self.shapes[name].first for name in names)


class _Follow:
    """Which lexemes may begin a body and which may follow each lexeme, whatever the context."""

    def __init__(self, rules: Mapping[str, Node], shapes: Mapping[str, Shape]) -> None:
        self._rules, self._shapes = rules, shapes
        self._firsts: dict[str, frozenset[str]] = dict.fromkeys(rules, frozenset())
        self._empty: set[str] = set()
        self.after: dict[str, set[str]] = {name: set() for name in (*rules, *shapes)}
        self._settle_firsts()
        self._settle_followers()

    def first(self, node: Node) -> frozenset[str]:
        match node:
            case Ref(name):
                return frozenset({name}) if name in self._shapes else self._firsts[name]
            case Alt(options):
                return frozenset[str]().union(*map(self.first, options))
            case Repeat(item):
                return self.first(item)
            case Seq(items):
                found: frozenset[str] = frozenset()
                for item in items:
                    found |= self.first(item)
                    if not self._nullable(item):
                        break
                return found
            case _:
                return frozenset()

    def _nullable(self, node: Node) -> bool:
        match node:
            case Ref(name):
                return self._shapes[name].nullable if name in self._shapes else name in self._empty
            case Seq(items):
                return all(map(self._nullable, items))
            case Alt(options):
                return any(map(self._nullable, options))
            case Repeat(item, least):
                return least == 0 or self._nullable(item)
            case _:
                return False

    def _settle_firsts(self) -> None:
        changed = True
        while changed:
            changed = False
            for name, body in self._rules.items():
                first, empty = self.first(body), self._nullable(body)
                changed |= first != self._firsts[name] or empty != (name in self._empty)
                self._firsts[name] = first
                if empty:
                    self._empty.add(name)

    def _settle_followers(self) -> None:
        size = -1
        while size != (size := sum(map(len, self.after.values()))):
            for name, body in self._rules.items():
                self._walk(body, frozenset(self.after[name]))

    def _walk(self, node: Node, after: frozenset[str]) -> None:
        match node:
            case Ref(name):
                self.after[name] |= after
            case Alt(options):
                for option in options:
                    self._walk(option, after)
            case Repeat(item, _, most):
                self._walk(item, after | self.first(item) if most is None or most > 1 else after)
            case Seq(items):
                for item in reversed(items):
                    self._walk(item, after)
                    after = self.first(item) | (after if self._nullable(item) else frozenset[str]())
            case _:
                pass
