"""How `/v1/messages` says an answer: Anthropic's events, one content block after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stoker.core.errors import ServerError
from stoker.core.events import Finished, Piece, Progress
from stoker.routes.body import Json, members
from stoker.routes.errors import envelope
from stoker.routes.shape import anthropic
from stoker.routes.shape.subject import Part, Subject
from stoker.routes.speakers import Ends
from stoker.routes.sse import Frame, Named, Voice
from stoker.text.deltas import CallPart, Content, Delta, Thought
from stoker.text.reply import Reply, read


def named(kind: str, **more: object) -> Named:
    return Named(kind, {"type": kind, **more})


def failure(error: ServerError) -> list[Frame]:
    """An event of its own, with the bare error."""
    return [Named("error", dict(members(envelope(error)["error"])))]


class Messages:
    says_done = False
    voice = Voice(failure=failure)

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.reply = Reply(subject.parsing)
        self.begun = False
        self.block = -1
        self.kind: object = None
        """What the open block holds: a type of delta, or a call's index."""

    def whole(self, ends: Ends) -> object:
        _, end = ends[0]
        said, subject = read(end.text, self.subject.parsing), self.subject
        whole = replace(
            said, content=subject.prefill + said.content, reasoning=subject.prefill_thought + said.reasoning
        )  # fmt: skip
        return anthropic.message(subject, whole, end)

    def progress(self, part: Part, event: Progress) -> list[Frame]:
        if self.begun:
            return []
        self.begun = True
        return [named("message_start", message=anthropic.opening(self.subject, event.total, event.cached))]

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Frame]:
        deltas = [delta for piece in pieces for delta in self.reply.push(piece.text)]
        return [frame for delta in deltas for frame in self.say(delta)]

    def finished(self, part: Part, event: Finished) -> list[Frame]:
        frames = [frame for delta in self.reply.end() for frame in self.say(delta)]
        calls = len(self.reply.message.calls)
        ending = named("message_delta", **anthropic.ending(event, calls))
        return [*frames, *self.end_block(), ending, named("message_stop")]

    def close(self, ends: Ends) -> list[Frame]:
        return []

    def say(self, delta: Delta) -> Iterator[Frame]:
        kind = delta.index if isinstance(delta, CallPart) else type(delta)
        if kind != self.kind:
            yield from self.end_block()
            self.kind, self.block = kind, self.block + 1
            yield named("content_block_start", index=self.block, content_block=_empty(delta))
        if not isinstance(delta, CallPart) or delta.arguments:
            yield named("content_block_delta", index=self.block, delta=_delta(delta))

    def end_block(self) -> Iterator[Frame]:
        """A thought is signed, with nothing: there is nobody to check it."""
        if self.kind is None:
            return
        if self.kind is Thought:
            signature = {"type": "signature_delta", "signature": ""}
            yield named("content_block_delta", index=self.block, delta=signature)
        self.kind = None
        yield named("content_block_stop", index=self.block)


def _empty(delta: Delta) -> Json:
    if isinstance(delta, Thought):
        return {"type": "thinking", "thinking": ""}
    if isinstance(delta, Content):
        return {"type": "text", "text": ""}
    return {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}


def _delta(delta: Delta) -> Json:
    if isinstance(delta, Thought):
        return {"type": "thinking_delta", "thinking": delta.text}
    if isinstance(delta, Content):
        return {"type": "text_delta", "text": delta.text}
    return {"type": "input_json_delta", "partial_json": delta.arguments}
