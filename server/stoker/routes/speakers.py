"""How each kind of route says a request's events: whole at the end, or frame by frame."""

from collections.abc import Sequence
from typing import Protocol

from stoker.core.events import Finished, Piece, Progress
from stoker.routes.body import Json
from stoker.routes.shape import native, openai
from stoker.routes.shape.subject import Part, Subject

Ends = Sequence[tuple[Part, Finished]]


class Speaker(Protocol):
    @property
    def says_done(self) -> bool:
        """True: `[DONE]` ends the stream."""
        ...

    def whole(self, ends: Ends) -> object: ...

    def progress(self, part: Part, event: Progress) -> list[Json]: ...

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Json]: ...

    def finished(self, part: Part, event: Finished) -> list[Json]: ...

    def close(self, ends: Ends) -> list[Json]:
        """Frames after the last sequence has ended."""
        ...


class Native:
    says_done = False

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def whole(self, ends: Ends) -> object:
        """One object, or an array if there are several."""
        answers = [native.final(self.subject, part, event, streamed=False) for part, event in ends]
        return answers[0] if len(answers) == 1 else answers

    def progress(self, part: Part, event: Progress) -> list[Json]:
        return [native.progress(self.subject, part, event)] if self.subject.options.return_progress else []

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Json]:
        return [native.piece(self.subject, part, piece) for piece in pieces]

    def finished(self, part: Part, event: Finished) -> list[Json]:
        return [native.final(self.subject, part, event, streamed=True)]

    def close(self, ends: Ends) -> list[Json]:
        return []


class Text:
    says_done = True

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def whole(self, ends: Ends) -> object:
        return openai.text_completion(self.subject, ends)

    def progress(self, part: Part, event: Progress) -> list[Json]:
        return [openai.text_progress(self.subject, part, event)] if self.subject.options.return_progress else []

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Json]:
        return [openai.text_piece(self.subject, part, piece) for piece in pieces]

    def finished(self, part: Part, event: Finished) -> list[Json]:
        return [openai.text_finish(self.subject, part, event)]

    def close(self, ends: Ends) -> list[Json]:
        return []


class Chat:
    """The first token of each sequence opens with the role; a token without text waits for the next one."""

    says_done = True

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.opened: set[int] = set()
        self.silent: dict[int, list[Piece]] = {}

    def whole(self, ends: Ends) -> object:
        return openai.chat_completion(self.subject, ends)

    def progress(self, part: Part, event: Progress) -> list[Json]:
        return [openai.chat_progress(self.subject, part, event)] if self.subject.options.return_progress else []

    def pieces(self, part: Part, pieces: Sequence[Piece]) -> list[Json]:
        frames = self.open(part)
        for piece in pieces:
            held = [*self.silent.pop(part.index, []), piece]
            if piece.text:
                frames.append(openai.chat_piece(self.subject, part, held))
            elif piece.probs is not None:
                self.silent[part.index] = held
        return frames

    def finished(self, part: Part, event: Finished) -> list[Json]:
        return [*self.open(part), openai.chat_finish(self.subject, part, event)]

    def close(self, ends: Ends) -> list[Json]:
        return [openai.chat_usage(self.subject, ends[0][1])] if self.subject.options.include_usage else []

    def open(self, part: Part) -> list[Json]:
        if part.index in self.opened:
            return []
        self.opened.add(part.index)
        frames = [openai.chat_role(self.subject, part)]
        if self.subject.options.echo and self.subject.prefill:
            frames.append(openai.chat_text(self.subject, part, self.subject.prefill))
        return frames
