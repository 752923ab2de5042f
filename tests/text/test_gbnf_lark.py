"""The grammar that llguidance gets has the language of the GBNF text, however its lexer cuts."""

import itertools
import random
from collections.abc import Mapping

import llguidance
import pytest

from stoker.text.gbnf import parse
from stoker.text.gbnf_lark import to_lark
from stoker.text.lexemes import shape
from stoker.text.rules import Alt, Chars, Node, Ref, Repeat, Seq, Token

LONGEST = 5
ALPHABET = "abc"
STRINGS = ["".join(chars) for n in range(LONGEST + 1) for chars in itertools.product(ALPHABET, repeat=n)]


class Bytes:
    """256 tokens of a byte, and an end."""

    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes((n,)) for n in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))


def accepted(lark: str, strings: list[str]) -> set[str]:
    matcher = llguidance.LLMatcher(TOKENIZER, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    found: set[str] = set()
    for text in strings:
        copy = matcher.deep_copy()
        data = list(text.encode())
        if copy.try_consume_tokens(data) == len(data) and copy.is_accepting():
            found.add(text)
    return found


def language(rules: Mapping[str, Node]) -> frozenset[str]:
    """All words of up to `LONGEST` letters: a fixed point over sets of words."""
    words: dict[str, frozenset[str]] = dict.fromkeys(rules, frozenset())
    while True:
        grown = {name: _words(body, words) for name, body in rules.items()}
        if grown == words:
            return words["root"]
        words = grown


def _words(node: Node, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    match node:
        case Chars(ranges):
            return frozenset(c for c in ALPHABET if any(low <= ord(c) <= high for low, high in ranges))
        case Ref(name):
            return known[name]
        case Alt(options):
            return frozenset().union(*(_words(option, known) for option in options))
        case Seq(items):
            return _joined([_words(item, known) for item in items])
        case Repeat(item, least, most):
            once = _words(item, known)
            top = least + LONGEST if most is None else min(most, least + LONGEST)
            return frozenset().union(*(_joined([once] * n) for n in range(least, top + 1)))
        case _:
            raise TypeError(node)


def _joined(parts: list[frozenset[str]]) -> frozenset[str]:
    words = frozenset({""})
    for part in parts:
        words = frozenset(a + b for a in words for b in part if len(a + b) <= LONGEST)
    return words


def random_body(rng: random.Random, depth: int, names: list[str]) -> str:
    kind = rng.randint(0, 7 if depth else 2)
    if kind == 0:
        return '"' + "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 3))) + '"'
    if kind == 1:
        return rng.choice(["[a-b]", "[^a]", "[bc]", "."])
    if kind == 2:
        return rng.choice(names)
    if kind == 3:
        times = rng.choice(["*", "+", "?", "{2}", "{1,2}", "{0}", "{1,}"])
        return f"({random_body(rng, depth - 1, names)}){times}"
    parts = [random_body(rng, depth - 1, names) for _ in range(rng.randint(1, 3))]
    return " ".join(parts) if kind in (4, 5) else f"({' | '.join(parts)})"


def random_grammar(rng: random.Random) -> str:
    names = ["root", "x", "y"][: rng.randint(1, 3)]
    bodies = (" | ".join(random_body(rng, 3, names) for _ in range(rng.randint(1, 3))) for _ in names)
    return "\n".join(f"{name} ::= {body}" for name, body in zip(names, bodies, strict=True))


def form(lark: str) -> str:
    return "regular" if "\nr" not in lark else "lexemes" if "T_" in lark else "characters"


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_random_grammars_keep_their_language(count: int) -> None:
    seen = set[str]()
    for seed in range(count):
        text = random_grammar(random.Random(seed))
        lark, words = to_lark(text), language(parse(text))
        seen.add(form(lark))
        if words:
            assert accepted(lark, STRINGS) == words, (seed, text, lark)
    assert seen == {"regular", "lexemes", "characters"}


JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize(
    ("text", "kind", "right", "wrong"),
    [
        ('root ::= "yes" | "no"', "regular", ["yes", "no"], ["ye", "yesno", ""]),
        ('root ::= [a-z]* "end"', "regular", ["end", "fooend", "endend"], ["foo", "fooendx"]),
        (
            'root ::= word "end" root | "x"\nword ::= [a-z]*',
            "characters",
            ["x", "endx", "endendx", "fooendx"],
            ["end", "fooend"],
        ),
        (JSON, "lexemes", ['{"a": [1, -2.5e3, true, "\\u00e9\\n"]}', "{}"], ['{"a"}', "[1]", '{"a": "\\x"}']),
        (r'root ::= "\u00e9" [^\x00-\x7F] . "\U0001F600"', "regular", ["éü\n😀"], ["eü\n😀", "éa\n😀"]),
        (r"root ::= [&~/\[\]^-]+", "regular", ["&&~~--//[[]]^"], ["", "a"]),
        ("root ::= T-0\nT-0 ::= R0\nR0 ::= \"a\" T-0 | \"b\"", "lexemes", ["b", "aab"], ["a", ""]),
        ('root ::= "a" <[65]>', "lexemes", ["aA"], ["a", "aB"]),
    ],
)  # fmt: skip
def test_known_grammars(text: str, kind: str, right: list[str], wrong: list[str]) -> None:
    lark = to_lark(text)
    assert form(lark) == kind
    assert accepted(lark, [*right, *wrong]) == set(right)


def test_a_grammar_with_very_many_lexemes_is_read_by_characters() -> None:
    options = " | ".join(f'"{chr(0x4E00 + n)}" root' for n in range(500))
    assert form(to_lark(f'root ::= "." | {options}')) == "characters"


@pytest.mark.parametrize(("inner", "last"), [('"b"', "b"), ('root "c"', "xc")], ids=["regular", "recursive"])
def test_deep_groups_become_rules_of_their_own(inner: str, last: str) -> None:
    lark = to_lark('root ::= "x" | ' + '("a" ' * 40 + inner + " | [b])" * 40)
    right = ["x", "b", "ab", "aab", "a" * 39 + "b", "a" * 40 + last]
    assert accepted(lark, [*right, "", "a", "a" * 41 + last]) == set(right)


def test_tokens_may_stand_beside_text_and_be_ruled_out() -> None:
    assert accepted(to_lark('root ::= "a" !<[65]> <[66]>'), ["aCB", "aAB", "aC"]) == {"aCB"}


def test_only_regular_expressions_have_a_shape() -> None:
    with pytest.raises(TypeError):
        shape(Token(1), {})
