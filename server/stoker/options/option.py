"""One row of the command line, and the way a dataclass field carries one."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from stoker.options.domains import Domain, Pair

T = TypeVar("T")
Mode = Literal["replaces", "collects", "joins-env"]


class More(TypedDict, total=False):
    """What an option may say beside its name, domain and help."""

    env: str
    section: str
    mode: Mode
    secret: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    spellings: tuple[str, ...]
    """Those that give a value or switch on; a pair keeps its other half in its domain."""
    takes: Domain
    field: str = ""
    """The field of Settings that it fills; empty: it fills none."""
    env: str = ""
    section: str = ""
    help: str = ""
    mode: Mode = "replaces"
    """`collects`: every occurrence adds to the list, for options without a comma form (llama-server appends, too).
    `joins-env`: the command line adds to the variable instead of beating it."""

    default: object = None
    """Its field's default, for the help."""
    secret: bool = False
    """True: the value stays out of a `repr`."""

    @property
    def name(self) -> str:
        """The spelling that messages use: the last long one, as upstream's help ends with the plainest."""
        long = [s for s in self.spellings if s.startswith("--")]
        return (long or list(self.spellings))[-1]

    @property
    def off(self) -> tuple[str, ...]:
        return self.takes.off if isinstance(self.takes, Pair) else ()

    @property
    def off_env(self) -> str:
        """The variable whose mere presence turns a pair off."""
        return self.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1) if self.off and self.env else ""


def flag(default: T, spellings: str, takes: Domain, help: str, **more: Unpack[More]) -> T:
    """A dataclass field with its option, spellings between blanks; typed as its default, as `dataclasses.field` is."""
    option = Option(spellings=tuple(spellings.split()), takes=takes, help=help, **more)
    return field(default=default, repr=not option.secret, metadata={"option": option})


def options_of(cls: type[Any]) -> Iterator[Option]:
    """The options of a dataclass's fields, in order, fields without one left out. A section lasts to the next."""
    section = ""
    for f in fields(cls):
        option = f.metadata.get("option")
        if isinstance(option, Option):
            section = option.section or section
            yield replace(option, field=f.name, section=section, default=f.default)
