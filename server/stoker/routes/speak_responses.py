"""How `/v1/responses` says an answer: named events, an item for each of reasoning, message and call."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stoker.core.events import Finished, Piece, Progress
from stoker.routes.body import Json
from stoker.routes.shape import responses, timings
from stoker.routes.shape.ids import wall_seconds
from stoker.routes.shape.native import prompt_progress
from stoker.routes.shape.subject import Part, Subject
from stoker.routes.speakers import Ends
from stoker.routes.sse import PING, Frame, Named, Voice, encode
from stoker.text.deltas import CallPart, Content, Delta, Message, Thought
from stoker.text.reply import Reply, read


def event(kind: str, **members: object) -> Named:
    return Named(kind, {"type": kind, **members})


class Responses:
    """While there is nothing to say it repeats `response.in_progress`: some clients take comments for silence."""

    says_done = False

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.names = responses.Names()
        self.reply = Reply(subject.parsing)
        self.begun = False
        self.told: set[type[Delta]] = set()
        self.call = ""
        self.voice = Voice(PING + encode([self.growing("response.in_progress")]))

    def whole(self, ends: Ends) -> object:
        _, end = ends[0]
        said = self.complete(read(end.text, self.subject.parsing))
        return responses.response(self.names, self.subject.model, said, end, (self.subject.created, wall_seconds()))

    def progress(self, part: Part, event: Progress) -> list[Frame]:
        """The first one opens the stream; the others are news only where `return_progress` asks for them."""
        frames = [] if self.begun else [self.growing("response.created")]
        if self.begun and not self.subject.options.return_progress:
            return []
        self.begun = True
        told = prompt_progress(self.subject, event) if self.subject.options.return_progress else {}
        return [*frames, self.growing("response.in_progress", **told)]

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Frame]:
        return [frame for piece in pieces for frame in self.piece(piece)]

    def piece(self, piece: Piece) -> list[Named]:
        """The last of a token's events has its timings."""
        frames = [frame for delta in self.reply.push(piece.text) for frame in self.say(delta)]
        if frames:
            last = frames[-1]
            more = timings.asked(piece.timings, wanted=self.subject.options.timings_per_token)
            frames[-1] = Named(last.event, last.data | more)
        return frames

    def finished(self, part: Part, event: Finished) -> list[Frame]:
        frames = [frame for delta in self.reply.end() for frame in self.say(delta)]
        said = self.reply.message
        return [*frames, *self.items(said), self.completed(said, event)]

    def close(self, ends: Ends) -> list[Frame]:
        return []

    def growing(self, kind: str, **more: object) -> Named:
        return event(kind, response=responses.head(self.names), **more)

    def complete(self, said: Message) -> Message:
        """With the start that the client gave; as in a chat, a stream leaves it out."""
        subject = self.subject
        return replace(
            said, content=subject.prefill + said.content, reasoning=subject.prefill_thought + said.reasoning
        )  # fmt: skip

    def say(self, delta: Delta) -> Iterator[Named]:
        first = type(delta) not in self.told
        self.told.add(type(delta))
        if isinstance(delta, Thought):
            if first:
                yield event("response.output_item.added", item=self.empty_reasoning())
            yield event("response.reasoning_text.delta", delta=delta.text, item_id=self.names.reasoning)
        elif isinstance(delta, Content):
            if first:
                yield event("response.output_item.added", item=self.empty_message())
                yield event(
                    "response.content_part.added", item_id=self.names.message, part={"type": "output_text", "text": ""}
                )
            yield event("response.output_text.delta", item_id=self.names.message, delta=delta.text)
        else:
            yield from self.say_call(delta)

    def say_call(self, delta: CallPart) -> Iterator[Named]:
        if delta.name:
            self.call = f"fc_{delta.id}"
            yield event(
                "response.output_item.added",
                item={
                    "id": self.call,
                    "arguments": "",
                    "call_id": delta.id,
                    "name": delta.name,
                    "type": "function_call",
                    "status": "in_progress",
                },
            )
        if delta.arguments:
            yield event("response.function_call_arguments.delta", delta=delta.arguments, item_id=self.call)

    def empty_reasoning(self) -> Json:
        return {
            "id": self.names.reasoning,
            "summary": [],
            "type": "reasoning",
            "content": [],
            "encrypted_content": "",
            "status": "in_progress",
        }

    def empty_message(self) -> Json:
        return {
            "content": [],
            "id": self.names.message,
            "role": "assistant",
            "status": "in_progress",
            "type": "message",
        }

    def items(self, said: Message) -> Iterator[Frame]:
        """The end of every item, the text of the message first."""
        for item in responses.output(self.names, said, streamed=True):
            if item["type"] == "message":
                part = responses.text_part(said.content)
                yield event("response.output_text.done", item_id=self.names.message, text=said.content)
                yield event("response.content_part.done", item_id=self.names.message, part=part)
            yield event("response.output_item.done", item=item)

    def completed(self, said: Message, end: Finished) -> Frame:
        whole = responses.completed(self.names, self.subject.model, said, end, self.subject.created)
        figures = timings.final(end, asked=self.subject.options.speculation.asked)
        return event("response.completed", response=whole, timings=figures)
