"""GBNF is read as llama.cpp reads it."""

import pytest

from stoker.text.characters import LAST, complement, disjoint, overlap, union
from stoker.text.gbnf import parse
from stoker.text.rules import Alt, Chars, GrammarError, Node, Ref, Repeat, Seq, Token, references


def chars(*pairs: tuple[str, str] | str) -> Chars:
    return Chars(union((ord(pair[0]), ord(pair[-1])) for pair in pairs))


A, B, C = chars("a"), chars("b"), chars("c")


@pytest.mark.parametrize(
    ("body", "node"),
    [
        ('"a"', A),
        ('"ab"', Seq((A, B))),
        ('""', Seq()),
        ("", Seq()),
        ('"a" "b"', Seq((A, B))),
        ('"a" | "b"', Alt((A, B))),
        ('"a" |', Alt((A, Seq()))),
        ('"a" |\n  "b" # c\n', Alt((A, B))),
        ('("a"\n | "b") "c"', Seq((Alt((A, B)), C))),
        ('"ab"*', Repeat(Seq((A, B)), 0, None)),
        ('"a"+ "b"?', Seq((Repeat(A, 1, None), Repeat(B, 0, 1)))),
        ('"a"{2}', Repeat(A, 2, 2)),
        ('"a"{ 2 , }', Repeat(A, 2, None)),
        ('"a"{2,3}*', Repeat(Repeat(A, 2, 3), 0, None)),
        ("[a-c_]", chars("ac", "_")),
        ("[-a]", chars("-", "a")),
        ("[a-]", chars("a", "-")),
        ("[z-a]", Chars(())),
        ("[^a]", Chars(complement(A.ranges))),
        (".", Chars(((0, 0xD7FF), (0xE000, LAST)))),
        (r'"\n\t\r\\\"\[\]"', Seq(tuple(chars(c) for c in '\n\t\r\\"[]'))),
        (r'"\x41\u00e9\U0001F600"', Seq((chars("A"), chars("é"), chars("😀")))),
        (r"[\x00-\x1F\]]", Chars(((0, 31), (93, 93)))),
        ("x-1", Ref("x-1")),
        ("<[12]>", Token(12)),
        ("!<[12]>", Token(12, negated=True)),
        ("<think>", Token(7)),
    ],
)
def test_what_each_form_means(body: str, node: Node) -> None:
    known = {"<think>": 7}
    assert parse(f'x-1 ::= "x"\nroot ::= {body}', known.get)["root"] == node


def test_comments_blank_lines_and_carriage_returns_stand_between_rules() -> None:
    rules = parse('# first\r\n\r\nroot ::= a b # two\r\na ::= "a"\r\n\n  b ::=\n "b"')
    assert rules == {"root": Seq((Ref("a"), Ref("b"))), "a": A, "b": B}
    assert references(rules["root"]) == ["a", "b"]


def test_an_empty_body_takes_the_next_rules_name_for_its_own_as_llama_cpp_does() -> None:
    with pytest.raises(GrammarError, match="line 2: a name is expected"):
        parse('root ::=\na ::= "a"')


def test_of_two_rules_with_one_name_the_later_counts() -> None:
    assert parse('root ::= "a"\nroot ::= "b"') == {"root": B}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rule named root"),
        ('start ::= "a"', "no rule named root"),
        ("root ::= (", r"\) is expected"),
        ("root ::= )", "ends with its line"),
        ("root ::= a", "rule a is used and not defined"),
        ('root = "a"', "::= is expected"),
        ('root ::= "a', "ends inside quotes"),
        ('root ::= "a\\', "is no escape"),
        (r'root ::= "\q"', "is no escape"),
        (r'root ::= "\x4"', "is no escape"),
        ("root ::= [a", "ends inside quotes"),
        ("root ::= *", "nothing stands before"),
        ('root ::= "a"{,2}', "a number is expected"),
        ('root ::= "a"{2001}', "no sane number"),
        ('root ::= "a"{3,2}', "no sane number"),
        ('root ::= "a"{99999999999999}', "a number is expected"),
        ('root ::= "a"{1', "} is expected"),
        ("root ::= <a", "a token ends with >"),
        ("root ::= <a>", "is not one token"),
        ("root ::= a_b", "ends with its line|a name is expected"),
        ('root ::= "a"\n| "b"', "line 2: a name is expected"),
        ("root ::= " + "(" * 50, "too many parentheses"),
    ],
)
def test_what_llama_cpp_refuses_is_refused(text: str, said: str) -> None:
    with pytest.raises(GrammarError, match=said):
        parse(text)


def test_chains_that_would_exhaust_the_stack_of_what_reads_them_are_refused() -> None:
    def chain(length: int) -> str:
        return "root ::= r0\n" + "".join(f'r{n} ::= "a" r{n + 1}\n' for n in range(length)) + f'r{length} ::= "b"'

    assert len(parse(chain(100))) == 102
    with pytest.raises(GrammarError, match="too deeply"):
        parse(chain(400))


def test_sets_of_characters() -> None:
    assert union([(5, 9), (1, 2), (3, 4), (20, 30)]) == ((1, 9), (20, 30))
    assert union([(0xD700, 0xE000)]) == ((0xD700, 0xD7FF), (0xE000, 0xE000))
    assert complement(complement(((3, 5), (9, 9)))) == ((3, 5), (9, 9))
    assert overlap(((1, 3), (9, 9)), ((4, 8), (9, 12)))
    assert not overlap(((1, 3), (9, 9)), ((4, 8), (10, 12)))
    assert not overlap((), ((1, 1),))
    assert disjoint([((1, 2),), ((3, 4), (9, 9)), ()])
    assert not disjoint([((1, 3),), ((3, 4),)])
