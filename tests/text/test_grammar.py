"""Constraints: masks, drafts, triggers; and the book of compiled grammars."""

import re
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from letters import CONTROL, END, OTHER_END, Letters
from stoker.core.errors import InvalidRequest, ServerFault
from stoker.core.request import Grammar, Trigger, TriggerKind
from stoker.text import grammar as module
from stoker.text.constraint import FREE, Constraint, Words
from stoker.text.grammar import Grammars
from stoker.text.rules import GrammarError

LETTERS = Letters()
GRAMMARS = Grammars(LETTERS)
ENDS = {END, OTHER_END}


def ids(*texts: str) -> list[int]:
    return [LETTERS.pieces.index(text.encode()) for text in texts]


def constraint(text: str, *triggers: Trigger, said: Sequence[int] = ()) -> Constraint:
    return GRAMMARS.constraint(Grammar(text, bool(triggers), triggers), said)


def tokens(row: Words) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def free(row: Words) -> bool:
    return bool((row == FREE).all())


def test_a_mask_allows_every_token_that_fits_and_ends_where_the_grammar_may_end() -> None:
    held = constraint('root ::= "ab" "c"?')
    assert tokens(held.masks([])[0]) == set(ids("a", "ab", "abc"))
    held.advance(ids("ab"))
    assert tokens(held.masks([])[0]) == {*ids("c"), *ENDS}
    held.advance(ids("c"))
    assert tokens(held.masks([])[0]) == ENDS
    held.advance([END])
    assert held.over
    assert free(held.masks([])[0])


def test_masks_follow_a_draft_and_leave_the_constraint_where_it_was() -> None:
    held = constraint('root ::= "ab" "c"')
    rows = held.masks([*ids("a", "b", "c"), END, *ids("a")])
    assert [tokens(row) for row in rows[:4]] == [set(ids("a", "ab", "abc")), set(ids("b")), set(ids("c")), ENDS]
    assert all(map(free, rows[4:]))
    rows = held.masks(ids("a", "c", "c"))
    assert [free(row) for row in rows] == [False, False, True, True]
    assert tokens(held.masks([])[0]) == set(ids("a", "ab", "abc"))


@pytest.mark.parametrize(
    ("draft", "count"),
    [
        (ids("a", "b", "c"), 3),
        (ids("abc"), 1),
        ([*ids("abc"), OTHER_END, *ids("a")], 2),
        ([*ids("a"), END], 1),
        (ids("a", "c", "b"), 1),
        (ids("b"), 0),
        ([CONTROL], 0),
        ([], 0),
    ],
)
def test_a_draft_is_allowed_up_to_what_does_not_fit_or_ends_the_answer(draft: list[int], count: int) -> None:
    assert constraint('root ::= "abc"').allowed(draft) == count


def test_control_tokens_match_by_their_id_only() -> None:
    held = constraint('root ::= "<control>" <control> <[2]> "a"')
    assert CONTROL not in tokens(held.masks([])[0])
    held.advance(LETTERS.encode("<control>"))
    assert tokens(held.masks([])[0]) == {CONTROL}
    held.advance([CONTROL, CONTROL])
    assert tokens(held.masks([])[0]) == set(ids("a"))


def test_a_token_that_does_not_fit_is_remembered_as_a_fault() -> None:
    held = constraint('root ::= "abc"')
    held.advance(ids("b"))
    held.advance(ids("a"))
    with pytest.raises(ServerFault, match="left its grammar"):
        held.masks([])


def test_a_grammar_that_the_vocabulary_cannot_spell_says_so_when_it_gets_there() -> None:
    held = constraint('root ::= "a☃"')
    held.advance(ids("a"))
    with pytest.raises(ServerFault, match="allows no further token"):
        held.masks([])


WORD = Trigger(TriggerKind.WORD, "<t>")


def test_a_lazy_grammar_begins_with_the_text_of_its_trigger() -> None:
    held = constraint('root ::= "<t>" [0-9]', WORD)
    assert free(held.masks([])[0])
    draft = ids("a", "<", "t", ">", "7")
    rows = held.masks([*draft, END])
    assert [free(row) for row in rows] == [True, True, True, True, False, False, True]
    assert tokens(rows[5]) == ENDS
    assert held.allowed([*draft, *ids("7")]) == 5
    assert held.allowed([*ids("a"), END, *ids("a")]) == 2
    held.advance(ids("a", "<", "t"))
    assert free(held.masks([])[0])
    held.advance(ids(">"))
    assert tokens(held.masks([])[0]) == set(ids(*"0123456789"))


def test_a_trigger_may_lie_inside_a_token_and_go_on_behind_its_word() -> None:
    held = constraint('root ::= "b" "c" "d"', Trigger(TriggerKind.WORD, "b"))
    held.advance(ids("abc"))
    assert tokens(held.masks([])[0]) == set(ids("d"))


def test_tokens_and_patterns_are_triggers_too() -> None:
    held = constraint('root ::= "<control>" "x"', Trigger(TriggerKind.TOKEN, "", CONTROL))
    held.advance([*ids("x"), CONTROL])
    assert tokens(held.masks([])[0]) == set(ids("x"))
    held = constraint('root ::= "1" [a-z]', Trigger(TriggerKind.PATTERN, r"x+(\d)"))
    held.advance(ids("1", "x", "1"))
    assert set(ids("q")) <= tokens(held.masks([])[0])
    held = constraint('root ::= "x1" [a-z]', Trigger(TriggerKind.PATTERN, r"x\d"))
    held.advance(ids("x", "1"))
    assert set(ids("q")) <= tokens(held.masks([])[0])
    held = constraint('root ::= "1x" "y"', Trigger(TriggerKind.PATTERN_FULL, r"\dx"))
    held.advance(ids("1", "x"))
    assert tokens(held.masks([])[0]) == set(ids("y"))
    held = constraint('root ::= "1x" "y"', Trigger(TriggerKind.PATTERN_FULL, r"\dx"))
    held.advance(ids("1", "1", "x"))
    assert free(held.masks([])[0])


def test_what_a_trigger_brings_must_fit_the_grammar() -> None:
    held = constraint('root ::= "b"', Trigger(TriggerKind.WORD, "a"))
    assert held.allowed(ids("x", "a")) == 1
    held.advance(ids("a"))
    with pytest.raises(ServerFault, match="left its grammar"):
        held.masks([])
    broken = constraint('root ::= "é"', Trigger(TriggerKind.WORD, "é"))
    broken.advance([LETTERS.pieces.index(b"\xc3"), LETTERS.pieces.index(b"\xa9")])
    assert tokens(broken.masks([])[0]) == ENDS


def test_bytes_that_no_short_token_spells_do_not_fit() -> None:
    pieces = [piece if piece not in (b"\xc3", b"\xa9") else b"" for piece in LETTERS.pieces]
    pieces[3] = "aaé".encode()
    book = Grammars(Letters(pieces))  # the only way to say é is a token of four bytes and more
    held = book.constraint(Grammar('root ::= "é" | "z"', True, (Trigger(TriggerKind.WORD, "é"),)))
    assert held.allowed([3]) == 0


def test_an_answer_that_has_begun_goes_on() -> None:
    assert tokens(constraint('root ::= "abc"', said=ids("ab")).masks([])[0]) == set(ids("c"))


def test_a_grammar_is_compiled_once_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    compiled: list[str] = []
    read = module.to_lark
    monkeypatch.setattr(module, "to_lark", lambda text, ids: compiled.append(text) or read(text, ids))
    book = Grammars(LETTERS)
    texts = [f'root ::= "{letter}"' for letter in "abc"]
    for text in (texts[0], texts[0], texts[1], texts[2], texts[2], texts[0]):
        book.check(Grammar(text))
    assert compiled == [texts[0], texts[1], texts[2], texts[0]]
    book.check(Grammar())


def test_grammars_may_be_checked_from_many_threads_at_once() -> None:
    book = Grammars(LETTERS)
    failures: list[Exception] = []

    def work(n: int) -> None:
        try:
            for step in range(20):
                held = book.constraint(Grammar(f'root ::= "{"abc"[(n + step) % 3]}" "x"'))
                assert tokens(held.masks([])[0])
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("text", ["root ::= (", 'root ::= root "a"', "root ::= [z-a]", "root ::= <nothing>"])
def test_what_cannot_be_followed_is_refused_in_llama_servers_words(text: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{module.REFUSED}$"):
        GRAMMARS.check(Grammar(text))


def test_a_trigger_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="grammar_triggers"):
        GRAMMARS.check(Grammar('root ::= "a"', True, (Trigger(TriggerKind.PATTERN, "("),)))


def test_a_model_without_an_end_token_can_follow_a_grammar_that_never_ends() -> None:
    endless = Letters(hidden=frozenset({CONTROL}), end_ids=frozenset())
    held = Grammars(endless).constraint(Grammar('root ::= "ab"*'))
    held.advance(ids("ab"))
    assert tokens(held.masks([])[0]) == set(ids("a", "ab"))
    assert re.fullmatch(r"\d+", str(held.alphabet.words))


def test_whoever_compiles_learns_the_cause() -> None:
    for text, cause in (
        ('root ::= "☃"', "no token can begin"),
        ("root ::= (", "line 1"),
        ('root ::= <[5000]> "a"', "Token range end too large"),
    ):
        with pytest.raises(GrammarError, match=cause):
            GRAMMARS.compile(Grammar(text))
