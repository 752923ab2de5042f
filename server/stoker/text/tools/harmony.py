"""gpt-oss answers: everything is a message in a channel. Analysis is a thought, a message to a tool a call."""

import re

from stoker.text.jsonstream import ignore
from stoker.text.source import Sink, Source, Wait, collect, until
from stoker.text.writer import Writer

MARKS = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>")
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>")
_RECIPIENT = re.compile(r"to=(?:functions\.)?([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


def converse(source: Source, writer: Writer, *, thoughts: bool, calls: bool) -> Wait[None]:
    """Reads messages to the end. Without `thoughts` or `calls` their text is content."""
    prefix = ""
    while True:
        head, marker = yield from collect(source, "<|message|>")
        if not marker:
            # No message at all: a model that forgot its format.
            writer.content(_untagged(prefix + head))
            return
        prefix = yield from _message(source, prefix + head, writer, thoughts=thoughts, calls=calls)


def _message(source: Source, head: str, writer: Writer, *, thoughts: bool, calls: bool) -> Wait[str]:
    """Reads a message's text and its end; the result is what the next head begins with."""
    channel, recipient = _CHANNEL.search(head), _RECIPIENT.search(head)
    sink: Sink = writer.content
    thinks = thoughts and channel is not None and channel[1] == "analysis" and recipient is None
    if thinks:
        writer.begin_thought()
        sink = writer.thought
    elif recipient is not None and calls:
        writer.open_call(recipient[1])
        sink = writer.arguments
    end = yield from until(source, _ENDS, sink)
    if thinks:
        writer.end_thought()
    if end in ("<|start|>", "<|channel|>"):
        return end
    yield from until(source, ("<|start|>",), ignore)
    return "<|start|>"


def _untagged(text: str) -> str:
    """The text without the head that it began with."""
    return re.sub(r"^(<\|start\|>)?(assistant)?(<\|channel\|>\w*)?", "", text)
