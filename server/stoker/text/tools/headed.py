"""Calls of three parts between control tokens: a head that names the tool, and JSON arguments (DeepSeek, Kimi K2)."""

from collections.abc import Callable
from dataclasses import dataclass

from stoker.text import jsonstream
from stoker.text.source import Source, Wait, accept, collect, peek, spaces, until
from stoker.text.tools.format import Tools


@dataclass(frozen=True, slots=True)
class Marks:
    block: str
    block_end: str
    call: str
    arguments: str
    """Between the head and what follows."""
    call_end: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.block, self.block_end, self.call, self.arguments, self.call_end)


DEEPSEEK = Marks(
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
)
KIMI = Marks(
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)


def reader(marks: Marks, name_of: Callable[[str], str]) -> Callable[[str, Source, Tools], Wait[None]]:
    """`name_of` finds the tool's name in a head, or says "" where it stands on the line behind the head."""

    def read(marker: str, source: Source, tools: Tools) -> Wait[None]:
        if marker == marks.block:
            yield from spaces(source)
            if not (yield from accept(source, marks.call)):
                return
        while (yield from _call(source, tools, marks, name_of)):
            yield from spaces(source)
            if not (yield from accept(source, marks.call)):
                yield from accept(source, marks.block_end)
                return

    return read


def _call(source: Source, tools: Tools, marks: Marks, name_of: Callable[[str], str]) -> Wait[bool]:
    head, marker = yield from collect(source, marks.arguments, marks.call_end)
    if marker != marks.arguments:
        return False
    name = name_of(head)
    if not name:
        line, _ = yield from collect(source, "\n", "```", "{")
        name = line.strip()
    yield from spaces(source)
    if (yield from accept(source, "```json", "```")):
        yield from spaces(source)
    if not name or (yield from peek(source)) != "{":
        return False
    tools.writer.open_call(name)
    yield from jsonstream.value(source, tools.writer.arguments)
    yield from until(source, (marks.call_end,), jsonstream.ignore)
    return True


def deepseek_name(head: str) -> str:
    """V3.1 writes the name itself; R1 and V3 write `function` and the name behind the separator."""
    return "" if head.strip() == "function" else head.strip()


def kimi_name(head: str) -> str:
    """From `functions.name:0`."""
    return head.strip().removeprefix("functions.").rpartition(":")[0] or head.strip()
