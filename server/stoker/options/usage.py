"""What the command line says about itself: the help, the list of what is not honoured, the completion script."""

from collections.abc import Iterable, Sequence
from typing import cast

from stoker.options.option import Option

COLUMN = 44
"""Where the explanations start."""


def help_text(program: str, options: Iterable[Option], others: int) -> str:
    """One line for each option under its section's title; `others` is how many are known but not honoured."""
    sections: dict[str, list[str]] = {}
    for option in options:
        sections.setdefault(option.section, []).append(_line(option))
    lines = [f"usage: {program} [options]"]
    for title, entries in sections.items():
        lines += ["", title, *entries]
    lines += [
        "",
        f"{others} more options of llama-server are known and warned about or refused: --help-all lists them.",
    ]
    return "\n".join(lines)


def list_text(title: str, entries: Iterable[tuple[Option, str]]) -> str:
    """Options that are not honoured, each with what happens to it."""
    return "\n".join([title, *(_columns(_spelled(option), what) for option, what in entries)])


def completion_script(programs: Sequence[str], options: Iterable[Option]) -> str:
    """A bash function that completes every spelling, and files after an option that takes a value."""
    every = [spelling for o in options for spelling in (*o.spellings, *o.off)]
    valued = [spelling for o in options if o.takes.words for spelling in o.spellings]
    return f"""\
_stoker_server() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
    case " {" ".join(valued)} " in
        *" $before "*) COMPREPLY=($(compgen -f -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "{" ".join(every)}" -- "$word")) ;;
    esac
}}
complete -o filenames -F _stoker_server {" ".join(programs)}"""


def _line(option: Option) -> str:
    notes = [option.help]
    if (default := _default(option)) is not None:
        notes.append(f"(default: {default})")
    if option.env:
        notes.append(f"[{option.env}]")
    return _columns(_spelled(option), " ".join(notes))


def _columns(left: str, right: str) -> str:
    return f"  {left:<{COLUMN - 3}} {right}"


def _spelled(option: Option) -> str:
    return " ".join([", ".join((*option.spellings, *option.off)), option.takes.metavar]).rstrip()


def _default(option: Option) -> str | None:
    """As it would be typed; None when there is nothing to say."""
    if isinstance(option.default, bool):
        return ("on" if option.default else "off") if option.off else None
    if isinstance(option.default, tuple):
        return ";".join(map(str, cast("tuple[object, ...]", option.default))) or None
    return None if option.default in (None, "") else str(option.default)
