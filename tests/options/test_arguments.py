"""Words and variables to values, over a table of four options. The server's own table: tests/test_settings.py."""

import pytest

from stoker.core.errors import StartError
from stoker.options.arguments import Arguments, parse
from stoker.options.domains import Pair, Switch, Text, Whole
from stoker.options.option import Option

PORT = Option(spellings=("-p", "--port"), takes=Whole(0, 99), env="PORT")
LOUD = Option(spellings=("--loud",), takes=Switch(), env="LOUD")
SLOTS = Option(spellings=("--slots",), takes=Pair(("--no-slots",)), env="LLAMA_ARG_SLOTS")
KEYS = Option(spellings=("--key",), takes=Text(), env="KEYS")
TABLE = (PORT, LOUD, SLOTS, KEYS)


def values(found: Arguments) -> dict[str, object]:
    return {given.option.name: given.value for given in found.given}


def test_nothing_given_is_nothing() -> None:
    assert parse((), {}, TABLE) == Arguments(())


def test_words_and_variables_are_read_and_say_where_they_came_from() -> None:
    found = parse(("-p", "3", "--loud", "--no-slots"), {"KEYS": "a"}, TABLE)
    assert values(found) == {"--key": "a", "--port": 3, "--loud": True, "--slots": False}
    assert [given.origin for given in found.given] == ["KEYS", "-p", "--loud", "--no-slots"]


def test_what_follows_an_option_is_its_value_whatever_it_looks_like() -> None:
    assert values(parse(("--key", "--loud"), {}, TABLE)) == {"--key": "--loud"}


def test_the_command_line_beats_a_variable_and_the_last_word_the_first_each_with_a_warning() -> None:
    found = parse(("--port", "3", "-p", "4"), {"PORT": "5"}, TABLE)
    assert values(found) == {"--port": 4}
    assert len(found.warnings) == 2


def test_a_pairs_second_variable_turns_it_off_by_being_there() -> None:
    assert values(parse((), {"LLAMA_ARG_NO_SLOTS": "", "LLAMA_ARG_SLOTS": "on"}, TABLE)) == {"--slots": False}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--prot", "3"), r"invalid argument: --prot \(did you mean --port\?\)"),
        (("-px",), "invalid argument: -px"),
        (("--port",), "--port needs a value: a whole number from 0 to 99"),
        (("--port", "100"), "--port takes a whole number from 0 to 99, not '100'"),
        (("--port", "x"), "--port takes a whole number"),
    ],
)
def test_what_cannot_be_read_is_named(words: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(StartError, match=complaint):
        parse(words, {}, TABLE)
