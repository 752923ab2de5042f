from dataclasses import dataclass, field

from stoker.options.domains import Pair, Text, Whole
from stoker.options.option import Option, flag, options_of


@dataclass(frozen=True)
class Some:
    port: int = flag(80, "-p --port", Whole(), "where it listens", section="Net", env="PORT")
    key: str = flag("", "--key", Text(), "who may come", secret=True)
    slots: bool = flag(True, "--slots", Pair(("--no-slots",)), "shows slots", section="More", env="LLAMA_ARG_SLOTS")
    inner: int = field(default=3)


def test_a_field_carries_its_option_and_keeps_its_default() -> None:
    port, key, slots = options_of(Some)
    assert (port.field, port.default, port.name, port.env) == ("port", 80, "--port", "PORT")
    assert (key.field, slots.field) == ("key", "slots")
    assert Some() == Some(80, "", True, 3)


def test_a_section_lasts_to_the_next() -> None:
    assert [option.section for option in options_of(Some)] == ["Net", "Net", "More"]


def test_a_secret_stays_out_of_the_repr() -> None:
    assert "hush" not in repr(Some(key="hush"))
    assert "port=80" in repr(Some())


def test_a_name_is_the_last_long_spelling_or_the_last_of_all() -> None:
    assert Option(spellings=("-a", "--bb", "--cc"), takes=Text()).name == "--cc"
    assert Option(spellings=("-a", "-b"), takes=Text()).name == "-b"


def test_only_a_pair_can_be_turned_off() -> None:
    port, _, slots = options_of(Some)
    assert (port.off, port.off_env) == ((), "")
    assert (slots.off, slots.off_env) == (("--no-slots",), "LLAMA_ARG_NO_SLOTS")
