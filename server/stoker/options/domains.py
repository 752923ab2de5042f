"""What an option's value may be: `read` turns one text into a value, `settle` checks or clamps a value.

Both raise `ValueError`; the message is left to the caller, who knows which option it was and
asks `describe` for the domain. Standard library only, so that `--help` is fast.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

TRUTHY = ("on", "enabled", "true", "1")
FALSEY = ("off", "disabled", "false", "0")
MAX_INT = 2**31 - 1
MIN_INT = -(2**31)


class Domain(ABC):
    """`words` says how many words of the command line the value takes; `metavar` is its name in the help."""

    words: int = 1
    metavar: str = "TEXT"

    @property
    @abstractmethod
    def describe(self) -> str:
        """The domain as a noun: `a whole number from 0 to 65535`."""

    @abstractmethod
    def read(self, text: str) -> object:
        """The value of a text; ValueError when it has none."""

    def settle(self, value: object) -> object:
        """The value itself, or its nearest in a domain that clamps; ValueError outside of one that does not."""
        return value


@dataclass(frozen=True)
class Switch(Domain):
    """A spelling without a value; typing it means `sets`."""

    sets: object = True
    words = 0
    metavar = ""

    @property
    def describe(self) -> str:
        return "no value"

    def read(self, text: str) -> object:
        """A variable's text switches on by four words alone; None, any other text, leaves the default."""
        return self.sets if text in TRUTHY else None


@dataclass(frozen=True)
class Pair(Domain):
    """A switch with spellings for both states; `off` are those that turn it off."""

    off: tuple[str, ...]
    words = 0
    metavar = ""

    @property
    def describe(self) -> str:
        return f"one of {', '.join(TRUTHY + FALSEY)}"

    def read(self, text: str) -> bool:
        if text not in TRUTHY + FALSEY:
            raise ValueError(text)
        return text in TRUTHY


@dataclass(frozen=True)
class Whole(Domain):
    """A whole number; `soft` clamps instead of refusing, `names` are words that may stand for it."""

    ge: int = MIN_INT
    le: int = MAX_INT
    soft: bool = False
    names: tuple[str, ...] = ()
    but: tuple[int, ...] = ()
    metavar = "N"

    @property
    def describe(self) -> str:
        kind = "a whole number"
        if self.soft:
            return kind
        if self.le != MAX_INT:
            kind += f" from {self.ge} to {self.le}"
        elif self.ge > MIN_INT:
            kind += f", at least {self.ge}"
        kind += "".join(f", not {n}" for n in self.but)
        return " or ".join([kind, *self.names])

    def read(self, text: str) -> object:
        if text in self.names:
            return text
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ValueError(text)
        return int(text)

    def settle(self, value: object) -> object:
        if value in self.names:
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(value)
        if self.soft:
            return min(max(value, self.ge), self.le)
        if not self.ge <= value <= self.le or value in self.but:
            raise ValueError(value)
        return value


@dataclass(frozen=True)
class Real(Domain):
    """A finite number; `soft` clamps instead of refusing."""

    ge: float = -math.inf
    le: float = math.inf
    soft: bool = False
    metavar = "X"

    @property
    def describe(self) -> str:
        if self.soft or self.ge == -math.inf:
            return "a number"
        return f"a number from {self.ge:g} to {self.le:g}" if self.le < math.inf else f"a number, at least {self.ge:g}"

    def read(self, text: str) -> float:
        if "_" in text:
            raise ValueError(text)
        return float(text)

    def settle(self, value: object) -> object:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
            raise ValueError(value)
        if self.soft:
            return min(max(float(value), self.ge), self.le)
        if not self.ge <= value <= self.le:
            raise ValueError(value)
        return float(value)


@dataclass(frozen=True)
class Choice(Domain):
    names: tuple[str, ...]

    @property
    def metavar(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "|".join(self.names)

    @property
    def describe(self) -> str:
        return f"one of {', '.join(self.names)}"

    def read(self, text: str) -> str:
        return text

    def settle(self, value: object) -> object:
        if value not in self.names:
            raise ValueError(value)
        return value


@dataclass(frozen=True)
class OnOff(Domain):
    """on, off and perhaps auto, each with llama-server's other words for it."""

    auto: bool = True

    @property
    def metavar(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "on|off|auto" if self.auto else "on|off"

    @property
    def describe(self) -> str:
        return "on, off or auto" if self.auto else "on or off"

    def read(self, text: str) -> str:
        if self.auto and text in ("auto", "-1"):
            return "auto"
        if text not in TRUTHY + FALSEY:
            raise ValueError(text)
        return "on" if text in TRUTHY else "off"

    def settle(self, value: object) -> object:
        return self.read(cast("str", value))


@dataclass(frozen=True)
class Text(Domain):
    """Any text, used as it stands."""

    metavar: str = "TEXT"

    @property
    def describe(self) -> str:
        return "a text"

    def read(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class Parsed(Domain):
    """A text with a grammar of its own; `convert` raises ValueError. Two words arrive joined by a blank."""

    convert: Callable[[str], object]
    noun: str
    metavar: str = "TEXT"
    words: int = 1

    @property
    def describe(self) -> str:
        return self.noun

    def read(self, text: str) -> object:
        return self.convert(text)
