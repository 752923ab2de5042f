import pytest

from stoker.core.errors import StartError
from stoker.options.tracing import LEVELS, verbosity


@pytest.mark.parametrize(("word", "number"), LEVELS.items())
def test_every_level_has_its_number_in_either_variable(word: str, number: int) -> None:
    assert verbosity({"STOKER_LOG": word}) == number
    assert verbosity({"RUST_LOG": f" {word.upper()} "}) == number


def test_unset_or_empty_asks_for_nothing() -> None:
    assert verbosity({}) is None
    assert verbosity({"STOKER_LOG": "", "RUST_LOG": ""}) is None


def test_ours_counts_before_the_other() -> None:
    assert verbosity({"STOKER_LOG": "error", "RUST_LOG": "debug"}) == 1


def test_what_other_programs_read_in_the_other_is_passed_over() -> None:
    assert verbosity({"RUST_LOG": "hyper=warn,info"}) == 3
    assert verbosity({"RUST_LOG": "hyper=warn,off"}) is None


def test_a_word_that_is_no_level_is_refused_in_ours() -> None:
    with pytest.raises(StartError, match="STOKER_LOG takes error, warn, info, debug, trace, not 'loud'"):
        verbosity({"STOKER_LOG": "loud"})
