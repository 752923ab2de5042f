"""How each kind of route says a request's events: whole at the end, or frame by frame."""

from collections.abc import Sequence
from typing import Protocol

from stoker.core.events import Finished, Piece, Progress
from stoker.routes.shape import native, openai
from stoker.routes.shape.subject import Part, Subject
from stoker.routes.sse import USUAL, Frame, Voice
from stoker.text.deltas import Content
from stoker.text.reply import Reply

Ends = Sequence[tuple[Part, Finished]]


class Speaker(Protocol):
    @property
    def says_done(self) -> bool:
        """True: `[DONE]` ends the stream."""
        ...

    @property
    def subject(self) -> Subject: ...

    @property
    def voice(self) -> Voice: ...

    def whole(self, ends: Ends) -> object: ...

    def progress(self, part: Part, event: Progress) -> list[Frame]: ...

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Frame]: ...

    def finished(self, part: Part, event: Finished) -> list[Frame]: ...

    def close(self, ends: Ends) -> list[Frame]:
        """Frames after the last sequence has ended."""
        ...


class Native:
    says_done = False
    voice = USUAL

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def whole(self, ends: Ends) -> object:
        """One object, or an array if there are several."""
        answers = [native.final(self.subject, part, event, streamed=False) for part, event in ends]
        return answers[0] if len(answers) == 1 else answers

    def progress(self, part: Part, event: Progress) -> list[Frame]:
        return [native.progress(self.subject, part, event)] if self.subject.options.return_progress else []

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Frame]:
        return [native.piece(self.subject, part, piece) for piece in pieces]

    def finished(self, part: Part, event: Finished) -> list[Frame]:
        return [native.final(self.subject, part, event, streamed=True)]

    def close(self, ends: Ends) -> list[Frame]:
        return []


class Text:
    says_done = True
    voice = USUAL

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def whole(self, ends: Ends) -> object:
        return openai.text_completion(self.subject, ends)

    def progress(self, part: Part, event: Progress) -> list[Frame]:
        return [openai.text_progress(self.subject, part, event)] if self.subject.options.return_progress else []

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Frame]:
        return [openai.text_piece(self.subject, part, piece) for piece in pieces]

    def finished(self, part: Part, event: Finished) -> list[Frame]:
        return [openai.text_finish(self.subject, part, event)]

    def close(self, ends: Ends) -> list[Frame]:
        return []


class Chat:
    """The first token of each sequence opens with the role; a token that tells nothing waits for the next one."""

    says_done = True
    voice = USUAL

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.replies: dict[int, Reply] = {}
        self.silent: dict[int, list[Piece]] = {}

    def whole(self, ends: Ends) -> object:
        return openai.chat_completion(self.subject, ends)

    def progress(self, part: Part, event: Progress) -> list[Frame]:
        return [openai.chat_progress(self.subject, part, event)] if self.subject.options.return_progress else []

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Frame]:
        frames = self.open(part)
        reply = self.replies[part.index]
        for piece in pieces:
            held = [*self.silent.pop(part.index, []), piece]
            if deltas := reply.push(piece.text):
                frames += openai.chat_deltas(self.subject, part, deltas, held)
            elif piece.probs is not None:
                self.silent[part.index] = held
        return frames

    def finished(self, part: Part, event: Finished) -> list[Frame]:
        frames = self.open(part)
        reply = self.replies[part.index]
        frames += openai.chat_deltas(self.subject, part, reply.end(), self.silent.pop(part.index, []))
        return [*frames, openai.chat_finish(self.subject, part, event, len(reply.message.calls))]

    def close(self, ends: Ends) -> list[Frame]:
        return [openai.chat_usage(self.subject, ends[0][1])] if self.subject.options.include_usage else []

    def open(self, part: Part) -> list[Frame]:
        if part.index in self.replies:
            return []
        self.replies[part.index] = Reply(self.subject.parsing)
        given = (self.subject.prefill if self.subject.options.echo else "") + self.subject.lead
        frames: list[Frame] = [openai.chat_role(self.subject, part)]
        return [*frames, *openai.chat_deltas(self.subject, part, [Content(given)] if given else [], [])]
