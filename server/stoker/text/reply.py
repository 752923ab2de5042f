"""A model's answer taken apart while it comes: thoughts, content, tool calls.

Rules of this file:
1. Text that may yet begin a tag is held back; no tag is ever shown.
2. However the text is cut into pieces, the joined deltas are the same: a whole answer is one piece.
3. What turns out to be no call after all is content, its tags included: nothing is lost.
4. White space around a thought, and between content and a call, belongs to the format and is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stoker.text.deltas import Delta, Message
from stoker.text.reasoning import Tags
from stoker.text.source import Source, Wait, until
from stoker.text.tools import harmony
from stoker.text.tools.format import Format, Schemas, Tools
from stoker.text.writer import Manner, NewId, Writer, numbered


@dataclass(frozen=True, slots=True)
class Parsing:
    """How to read one answer. By default all of it is content."""

    tags: Tags | None = None
    """Around thoughts; None leaves them in the content."""
    inside: bool = False
    """True: the prompt ended inside a thought."""
    format: Format | None = None
    """Of tool calls; None leaves them in the content."""
    schemas: Schemas = field(default_factory=dict[str, dict[str, object]])
    parallel: bool = True
    """False: only the first call counts."""
    new_id: NewId = field(default_factory=numbered)

    channels: bool = False
    """True: the answer is made of harmony's channels."""

    @property
    def plain(self) -> bool:
        return self.tags is None and self.format is None and not self.channels

    @property
    def calls(self) -> bool:
        return self.format is not None


class Reply:
    """One answer, in order: `push`…, then `end`."""

    def __init__(self, parsing: Parsing) -> None:
        form = parsing.format
        self._plain = parsing.plain
        self._source = Source()
        manner = Manner(form is not None, parsing.parallel, form.id_length if form else 32)
        self._writer = Writer(manner, parsing.new_id)
        self._reader = _reader(self._source, self._writer, parsing)

    @property
    def message(self) -> Message:
        """Everything that has been told so far."""
        return self._writer.message

    def push(self, text: str) -> list[Delta]:
        """What `text` makes tellable."""
        if self._plain:
            self._writer.content(text)
        elif text:
            self._source.feed(text)
            next(self._reader, None)
        return self._writer.told()

    def end(self) -> list[Delta]:
        """What was held back."""
        self._source.ended = True
        next(self._reader, None)
        self._writer.flush()
        return self._writer.told()


def read(text: str, parsing: Parsing) -> Message:
    """A whole answer at once."""
    reply = Reply(parsing)
    reply.push(text)
    reply.end()
    return reply.message


def _reader(source: Source, writer: Writer, parsing: Parsing) -> Wait[None]:
    if parsing.channels:
        return harmony.converse(source, writer, thoughts=parsing.tags is not None, calls=parsing.calls)
    return _converse(source, Tools(writer, parsing.schemas), parsing)


def _converse(source: Source, tools: Tools, parsing: Parsing) -> Wait[None]:
    """Thoughts and calls between tags, content around them. A thought is one only where an answer can begin."""
    openers = parsing.format.openers if parsing.format else ()
    thinking, marker = parsing.inside, ""
    while True:
        if parsing.tags is not None:
            while thinking or (yield from _opens(source, parsing.tags)):
                marker = yield from _thought(source, tools.writer, parsing.tags, openers)
                thinking = False
                if marker:
                    break
        if not marker and parsing.format is not None:
            marker = yield from _answer(source, tools, parsing.format)
        elif not marker:
            yield from until(source, (), tools.writer.content)
        if not marker or parsing.format is None:
            return
        yield from _call(marker, source, tools, parsing.format)
        marker = ""


def _opens(source: Source, tags: Tags) -> Wait[bool]:
    """Reads the tag that opens a thought, and white space before it; False, and nothing read, if none is there."""
    while True:
        text = source.text.lstrip()
        if text.startswith(tags.open):
            source.take(len(source.text) - len(text) + len(tags.open))
            return True
        if source.ended or (text and not tags.open.startswith(text)):
            return False
        yield


def _thought(source: Source, writer: Writer, tags: Tags, openers: Sequence[str]) -> Wait[str]:
    """Reads a thought and the tag that closes it. A call closes it too: the result is its opener, else empty."""
    writer.begin_thought()
    marker = yield from until(source, (tags.close, *openers), writer.thought)
    writer.end_thought()
    return "" if marker == tags.close else marker


def _answer(source: Source, tools: Tools, form: Format) -> Wait[str]:
    """Reads content up to the opener of a call, which is the result; empty at the end."""
    if form.bare is not None:
        source.mark("")
        before = tools.writer.opened
        yield from form.bare(source, tools)
        if tools.writer.opened == before:
            tools.writer.content(source.since_mark)
    return (yield from until(source, form.openers, tools.writer.content))


def _call(marker: str, source: Source, tools: Tools, form: Format) -> Wait[None]:
    source.mark(marker)
    before = tools.writer.opened
    yield from form.read(marker, source, tools)
    if tools.writer.opened == before:
        tools.writer.content(source.since_mark)
