"""What an answer is made of, whole and in pieces."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """A piece of the answer proper."""

    text: str


@dataclass(frozen=True, slots=True)
class CallPart:
    """A piece of a tool call; `id` and `name` stand on its first one only."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


Delta = Thought | Content | CallPart


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    name: str
    arguments: str
    """JSON text, as the model wrote it."""


@dataclass(frozen=True, slots=True)
class Message:
    content: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
