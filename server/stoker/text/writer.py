"""Where readers of an answer put what they find: deltas to tell, and the message that they add up to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from stoker.text.deltas import Call, CallPart, Content, Delta, Message, Thought

NewId = Callable[[int], str]
"""Makes an id of so many characters."""


def numbered() -> NewId:
    """Ids that count: for whoever needs none that are unique."""
    numbers = count()
    return lambda length: f"{next(numbers):0{length}d}"


@dataclass(frozen=True, slots=True)
class Manner:
    calls: bool = False
    """True: white space before a call is dropped, so content holds it back."""
    parallel: bool = True
    """False: what follows the first call is dropped."""
    id_length: int = 32


class Writer:
    def __init__(self, manner: Manner, new_id: NewId) -> None:
        self._manner, self._new_id = manner, new_id
        self._told: list[Delta] = []
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[Call] = []
        self._arguments: list[str] = []
        self._held = ""
        """White space that counts only if more follows."""
        self._fresh = False
        """True: leading white space is dropped."""
        self._muted = False

    @property
    def opened(self) -> int:
        """Calls so far, dropped ones included."""
        return len(self._calls) + self._muted

    @property
    def message(self) -> Message:
        calls = list(self._calls)
        if calls:
            calls[-1] = replace(calls[-1], arguments="".join(self._arguments))
        return Message("".join(self._content), "".join(self._reasoning), tuple(calls))

    def told(self) -> list[Delta]:
        """The deltas since the last time, neighbours of one kind joined."""
        told, self._told = self._told, []
        joined: list[Delta] = []
        for delta in told:
            both = _join(joined[-1], delta) if joined else None
            joined[-1:] = [both] if both is not None else [*joined[-1:], delta]
        return joined

    def content(self, text: str) -> None:
        shown = self._trim(text, hold=self._manner.calls)
        if shown and not self._muted:
            self._content.append(shown)
            self._told.append(Content(shown))

    def begin_thought(self) -> None:
        self._fresh, self._held = True, ""

    def thought(self, text: str) -> None:
        """A later thought begins on a line of its own."""
        later = self._fresh and bool(self._reasoning)
        shown = self._trim(text, hold=True)
        if shown and not self._muted:
            shown = "\n" + shown if later else shown
            self._reasoning.append(shown)
            self._told.append(Thought(shown))

    def end_thought(self) -> None:
        self._fresh, self._held = True, ""

    def open_call(self, name: str) -> None:
        """What comes as `arguments` from here on is this call's."""
        self._fresh, self._held = True, ""
        self._muted = self._muted or (bool(self._calls) and not self._manner.parallel)
        if self._muted:
            return
        if self._calls:
            self._calls[-1] = replace(self._calls[-1], arguments="".join(self._arguments))
        self._arguments = []
        self._calls.append(Call(self._new_id(self._manner.id_length), name, ""))
        self._told.append(CallPart(len(self._calls) - 1, self._calls[-1].id, name))

    def arguments(self, text: str) -> None:
        if text and not self._muted:
            self._arguments.append(text)
            self._told.append(CallPart(len(self._calls) - 1, arguments=text))

    def flush(self) -> None:
        """Nothing follows any more: white space after content is content."""
        if self._held and not self._muted and not self._thinking():
            self._content.append(self._held)
            self._told.append(Content(self._held))
        self._held = ""

    def _thinking(self) -> bool:
        return bool(self._reasoning) and not self._content

    def _trim(self, text: str, *, hold: bool) -> str:
        if self._fresh:
            text = text.lstrip()
            self._fresh = not text
        if not hold:
            return text
        text = self._held + text
        shown = text.rstrip()
        self._held = text[len(shown) :]
        return shown


def _join(first: Delta, second: Delta) -> Delta | None:
    if isinstance(first, Content) and isinstance(second, Content):
        return Content(first.text + second.text)
    if isinstance(first, Thought) and isinstance(second, Thought):
        return Thought(first.text + second.text)
    if isinstance(first, CallPart) and isinstance(second, CallPart) and not second.name:
        return replace(first, arguments=first.arguments + second.arguments)
    return None
