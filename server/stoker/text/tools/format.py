"""What a family's way of writing tool calls consists of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.text.source import Source, Wait
from stoker.text.writer import Writer

Schemas = Mapping[str, Mapping[str, object]]
"""A tool's parameters (JSON schema) by its name."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a reader of calls knows and where it puts them."""

    writer: Writer
    schemas: Schemas

    def call(self, name: str, arguments: str) -> None:
        """A whole call at once."""
        self.writer.open_call(name)
        self.writer.arguments(arguments)


Reader = Callable[[str, Source, Tools], Wait[None]]
"""(opener that was read, text behind it, tools): opens no call where there is none after all."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What `tool_choice: required` imposes on an answer: `begin`, one JSON value of `schema`, `end`.

    A grammar of these three is all that is needed; the free part before `begin` is a lazy grammar's business.
    """

    begin: str
    schema: Mapping[str, object]
    end: str


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    openers: tuple[str, ...]
    """Texts with which calls begin."""
    read: Reader
    marks: tuple[str, ...] = ()
    """Texts that may be control tokens in the model's vocabulary: they must show, or nobody can find the calls."""
    bare: Callable[[Source, Tools], Wait[None]] | None = None
    """Reads calls without an opener, where an answer begins."""
    channels: bool = False
    """True: the whole answer is made of channels (harmony)."""
    id_length: int = 32
    envelope: Callable[[Schemas], Envelope] | None = None
    """None: the family's calls are no JSON."""
