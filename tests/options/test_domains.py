import pytest

from stoker.options.domains import Choice, Domain, OnOff, Pair, Real, Switch, Text, Whole


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        (Switch(), "no value"),
        (Pair(("--no-x",)), "one of on, enabled, true, 1, off, disabled, false, 0"),
        (Whole(), "a whole number"),
        (Whole(0, soft=True), "a whole number"),
        (Whole(0, 3), "a whole number from 0 to 3"),
        (Whole(-1, names=("auto", "all")), "a whole number, at least -1 or auto or all"),
        (Real(0, 1), "a number from 0 to 1"),
        (Real(0), "a number, at least 0"),
        (Choice(("a", "b")), "one of a, b"),
        (OnOff(auto=False), "on or off"),
        (Text(), "a text"),
    ],
)
def test_a_domain_describes_itself(domain: Domain, text: str) -> None:
    assert domain.describe == text


@pytest.mark.parametrize(
    ("domain", "metavar"), [(OnOff(), "on|off|auto"), (OnOff(auto=False), "on|off"), (Choice(("a", "b")), "a|b")]
)
def test_a_choice_is_shown_in_the_help(domain: Domain, metavar: str) -> None:
    assert domain.metavar == metavar


def test_names_stand_for_a_number_and_are_kept() -> None:
    layers = Whole(-1, names=("auto", "all"))
    assert [layers.settle(layers.read(text)) for text in ("all", "99", "+3")] == ["all", 99, 3]


@pytest.mark.parametrize(
    ("domain", "value"),
    [(Real(), float("inf")), (Real(), True), (Real(), "1"), (Whole(), True), (Whole(), 1.0), (Choice(("a",)), "b")],
)
def test_a_value_of_the_wrong_kind_does_not_settle(domain: Domain, value: object) -> None:
    with pytest.raises(ValueError, match=str(value)):
        domain.settle(value)


def test_auto_is_no_word_for_a_plain_on_or_off() -> None:
    with pytest.raises(ValueError, match="auto"):
        OnOff(auto=False).read("auto")
