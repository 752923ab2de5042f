"""What the rules of a grammar are made of, once they are read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stoker.text.characters import Ranges

LONGEST_CHAIN = 300
"""Levels of rules inside rules, and of groups inside those: what reads a grammar calls itself at each."""


class GrammarError(ValueError):
    """The text is no grammar; says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple["Node", ...] = ()


@dataclass(frozen=True, slots=True)
class Alt:
    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: "Node"
    least: int
    most: int | None
    """None: without end."""


@dataclass(frozen=True, slots=True)
class Ref:
    rule: str


@dataclass(frozen=True, slots=True)
class Token:
    """One token by its id, whatever its text; or any other one."""

    id: int
    negated: bool = False


Node = Chars | Seq | Alt | Repeat | Ref | Token


def references(node: Node) -> list[str]:
    """The rules that a body names."""
    match node:
        case Ref(rule):
            return [rule]
        case Seq(items) | Alt(items):
            return [name for item in items for name in references(item)]
        case Repeat(item):
            return references(item)
        case _:
            return []


def check_depth(rules: Mapping[str, Node]) -> None:
    """Raises GrammarError for rules that would exhaust the stack. Follows each once, in the order of their use."""
    seen, waiting = {"root"}, [("root", 0)]
    while waiting:
        rule, level = waiting.pop()
        if level > LONGEST_CHAIN:
            raise GrammarError("rules use each other too deeply")
        for name, below in reversed(list(_uses(rules[rule], 1))):
            if name not in seen:
                seen.add(name)
                waiting.append((name, level + below))


def _uses(node: Node, level: int) -> Iterator[tuple[str, int]]:
    match node:
        case Ref(rule):
            yield rule, level
        case Seq(items) | Alt(items):
            for item in items:
                yield from _uses(item, level + 1)
        case Repeat(item):
            yield from _uses(item, level + 1)
        case _:
            pass
