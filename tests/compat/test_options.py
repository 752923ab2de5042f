"""`options.json` and the parser say the same about llama-server's 249 options, whichever side one starts from."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logging_state import kept_logging
from stoker import cli, inert
from stoker.core.errors import StartError
from stoker.options.domains import Pair
from stoker.options.option import Option
from stoker.settings import Settings

DATA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "compat/llama-server/b10621/options.json").read_text(encoding="utf-8")
)
ENTRIES: list[dict[str, Any]] = DATA["options"]
OWN = {
    *("--max-queue-depth", "--help-all", "--draft-kind", "--draft-model", "--accept-rule", "--draft-coupling"),
    *("--no-prompt-lookup-adaptive", "--exactness"),
}
"""Stoker's own spellings."""
PRINTING = {name for option in cli.ACTIONS for name in option.spellings}


def in_state(*states: str) -> Any:
    """The entries in these states; those that print and end are left to tests/test_cli.py."""
    entries = [e for e in ENTRIES if e["state"] in states and e["spellings"][0] not in PRINTING]
    return pytest.mark.parametrize("entry", entries, ids=[e["spellings"][0] for e in entries])


def option_of(entry: dict[str, Any]) -> Option:
    return next(o for o in cli.options() if entry["spellings"][0] in (*o.spellings, *o.off))


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    with kept_logging():
        yield


def words_of(entry: dict[str, Any], value: str | None, tmp_path: Path) -> list[str]:
    """The entry's first spelling with a value and whatever else it needs."""
    sample = tmp_path / "sample"
    sample.write_text("{}", encoding="utf-8")
    values = [] if value is None else value.replace("{FILE}", str(sample)).split()
    return [entry["spellings"][0], *values, *entry.get("with", [])]


def outcome(words: list[str], caplog: pytest.LogCaptureFixture) -> tuple[list[Settings], list[str]]:
    """The settings that would be served and the warnings that went to the log."""
    caplog.clear()
    served: list[Settings] = []
    assert cli.start(words, {}, lambda settings: served.append(settings) or 0) == 0
    return served, [record.getMessage() for record in caplog.records]


def test_all_249_options_of_upstream_are_listed() -> None:
    assert len(ENTRIES) == 249
    assert {e["state"] for e in ENTRIES} == {"supported", "partial", "inert", "refused", "absent"}


def test_every_listed_spelling_is_known_and_every_known_one_is_listed_or_our_own() -> None:
    listed = {s for e in ENTRIES for s in e["spellings"]}
    known = {s for o in cli.options() for s in (*o.spellings, *o.off)}
    assert listed - known == set()
    assert known - listed == OWN


def test_no_spelling_and_no_variable_belongs_to_two_options() -> None:
    spellings = [s for o in cli.options() for s in (*o.spellings, *o.off)]
    variables = [o.env for o in cli.options() if o.env]
    names = [o.name for o in cli.options()]
    for words in (spellings, variables, names):
        assert len(words) == len(set(words))


@pytest.mark.parametrize("entry", ENTRIES, ids=[e["spellings"][0] for e in ENTRIES])
def test_an_entry_and_its_option_have_the_same_spellings_and_variable(entry: dict[str, Any]) -> None:
    option = option_of(entry)
    assert set(entry["spellings"]) == {*option.spellings, *option.off} - OWN
    assert entry["env"] == option.env


@pytest.mark.parametrize("entry", [e for e in ENTRIES if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|on|off", e["default"])])
def test_the_default_is_upstreams(entry: dict[str, Any]) -> None:
    option = option_of(entry)
    value = entry["default"] == "on" if entry["default"] in ("on", "off") else float(entry["default"])
    rows = {row.option.name: row for row in inert.TABLE}
    if option.name not in rows:
        assert (option.default or 0) == value
    elif value or not isinstance(value, bool) or isinstance(option.takes, Pair):
        assert value in rows[option.name].quiet


@in_state("supported")
def test_a_supported_option_starts_without_a_warning(
    entry: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served, warnings = outcome(words_of(entry, entry.get("sample"), tmp_path), caplog)
    assert len(served) == 1
    assert warnings == []
    option = option_of(entry)
    if not isinstance(option.takes, Pair):
        assert getattr(served[0], option.field) != option.default


@in_state("partial")
def test_a_partial_option_accepts_warns_and_refuses_as_it_says(
    entry: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = {"accepts": 0, "warns": 1}
    assert {*expected, "refuses"} & set(entry)
    for key, count in expected.items():
        if key in entry:
            _, warnings = outcome(words_of(entry, entry[key], tmp_path), caplog)
            assert len(warnings) == count
    if "refuses" in entry:
        with pytest.raises(StartError, match=re.escape(entry["spellings"][0])):
            outcome(words_of(entry, entry["refuses"], tmp_path), caplog)


@in_state("inert")
def test_an_inert_option_warns_once_and_names_itself(
    entry: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = words_of(entry, entry.get("sample"), tmp_path)
    option = option_of(entry)
    quiet = next(row.quiet for row in inert.TABLE if row.option.name == option.name)
    if isinstance(option.takes, Pair) and True in quiet:
        words[0] = option.off[0]
    _, warnings = outcome(words, caplog)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{words[0]} has no effect: ")
    assert entry["note"] in warnings[0]


@in_state("refused", "absent")
def test_a_refused_option_ends_the_start_and_names_itself(
    entry: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = words_of(entry, entry.get("sample"), tmp_path)
    with pytest.raises(StartError, match=f"^{re.escape(words[0])}(:| cannot be honoured: ).") as refusal:
        outcome(words, caplog)
    assert "\n" not in str(refusal.value)


@in_state("absent")
def test_a_removed_option_names_its_successor(entry: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"the argument has been removed. use .*--spec-"):
        cli.start(words_of(entry, "3", tmp_path), {}, lambda _: 0)


@pytest.mark.parametrize(
    "word", ["--no-such-option", "-zz", "-nglx", "-ng", "model.gguf", "", "-", "--", "--port=8080"]
)
def test_an_unclaimed_word_does_not_parse(word: str) -> None:
    with pytest.raises(StartError, match=r"^invalid argument: " + re.escape(word)):
        cli.start([word, "1"], {}, lambda _: 0)
