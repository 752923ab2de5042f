"""Words and variables → what was given, by llama-server's rules.

argparse cannot hold them (tried, Python 3.11): it reads `-nx` as `-n x`, takes `-ng` for a prefix of
`-ngl`, and refuses a value such as `--chat-template -x`. Here a word is a spelling only as a whole,
and what follows an option that takes a value is its value, whatever it starts with.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from stoker.core.errors import StartError
from stoker.options.option import Option

REPEATS_SILENTLY = "--spec-type"
"""The one option that llama-server lets stand twice without a word."""


@dataclass(frozen=True, slots=True)
class Given:
    """One option with its value; `origin` is the spelling or the variable that gave it."""

    option: Option
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """Everything given, variables first, each option once; `warnings` are whole lines for the log."""

    given: tuple[Given, ...]
    warnings: tuple[str, ...] = ()


def parse(words: Sequence[str], environ: Mapping[str, str], table: Sequence[Option]) -> Arguments:
    """StartError on a word that is no option, a missing value, or a value outside its domain."""
    warnings: list[str] = []
    typed = _read_words(words, {s: o for o in table for s in (*o.spellings, *o.off)}, warnings)
    kept: list[Given] = []
    for given in _read_environment(environ, table):
        name = given.option.name
        if name not in typed:
            kept.append(given)
        elif given.option.mode == "joins-env":
            typed[name] = replace(typed[name], value=_join(given.value, typed[name].value))
        else:
            warnings.append(f"{given.origin} is set, but {typed[name].origin} on the command line overrides it")
    return Arguments((*kept, *typed.values()), tuple(warnings))


def _read_environment(environ: Mapping[str, str], table: Sequence[Option]) -> Iterator[Given]:
    for option in table:
        if option.off_env and option.off_env in environ:
            yield Given(option, False, option.off_env)
        elif option.env and option.env in environ:
            value = _value(option, option.env, environ[option.env])
            if value is not None:
                yield Given(option, value, option.env)


def _read_words(words: Sequence[str], known: Mapping[str, Option], warnings: list[str]) -> dict[str, Given]:
    """What was typed, by the option's name; a repeated option moves to the end."""
    typed: dict[str, Given] = {}
    position = 0
    while position < len(words):
        spelling = _plain(words[position])
        option = known.get(spelling)
        if option is None:
            raise StartError(f"invalid argument: {words[position]}{_hint(spelling, known)}")
        position += 1
        values = words[position : position + option.takes.words]
        if len(values) < option.takes.words:
            raise StartError(f"{spelling} needs a value: {option.takes.describe}")
        position += len(values)
        value = _value(option, spelling, " ".join(values)) if values else _switched(option, spelling)
        before = typed.pop(option.name, None)
        if before and option.mode == "collects":
            value = _join(before.value, value)
        elif before and option.name != REPEATS_SILENTLY:
            warnings.append(f"{spelling} is given more than once: the last value counts; this is deprecated")
        typed[option.name] = Given(option, value, spelling)
    return typed


def _join(first: object, second: object) -> object:
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    return (*cast("tuple[object, ...]", first), *cast("tuple[object, ...]", second))


def _switched(option: Option, spelling: str) -> object:
    return False if spelling in option.off else option.takes.read("on")


def _value(option: Option, origin: str, text: str) -> object:
    try:
        value = option.takes.read(text)
        return None if value is None else option.takes.settle(value)
    except OSError as error:
        raise StartError(f"{origin}: cannot read {text}: {error.strerror}") from None
    except ValueError:
        raise StartError(f"{origin} takes {option.takes.describe}, not {text!r}") from None


def _plain(word: str) -> str:
    """Long spellings may be written with underscores."""
    return word.replace("_", "-") if word.startswith("--") else word


def _hint(spelling: str, known: Mapping[str, Option]) -> str:
    near = difflib.get_close_matches(spelling, known, n=1, cutoff=0.75)
    return f" (did you mean {near[0]}?)" if near else ""
