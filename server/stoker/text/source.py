"""Text that arrives in pieces, read by generators that wait for more of it.

A reader is written as if the whole text were there, and says `yield from` where it may have to wait. Every decision
hangs on characters that have come, never on where a piece ends, so any cutting of the text gives the same result.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

T = TypeVar("T")

Wait = Generator[None, None, T]
"""A reader; it yields each time it needs text that has not come."""
Sink = Callable[[str], None]


class Source:
    """What has come and is not read yet. Readers look at `ended` before they wait."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = False
        self._marked: list[str] = []

    def feed(self, text: str) -> None:
        self.text += text

    def take(self, count: int) -> str:
        """Reads `count` characters that have come."""
        taken, self.text = self.text[:count], self.text[count:]
        self._marked.append(taken)
        return taken

    def mark(self, text: str) -> None:
        """What is read from here on can be asked for again; `text` is put before it."""
        self._marked = [text]

    @property
    def since_mark(self) -> str:
        return "".join(self._marked)


def peek(source: Source) -> Wait[str]:
    """The next character, unread; empty at the end."""
    while not source.text and not source.ended:
        yield
    return source.text[:1]


def spaces(source: Source) -> Wait[None]:
    """Reads white space."""
    while True:
        source.take(len(source.text) - len(source.text.lstrip()))
        if source.text or source.ended:
            return
        yield


def accept(source: Source, *words: str) -> Wait[str]:
    """Reads the word that comes next, the longest of those that fit; empty, and nothing read, if none does."""
    while not source.ended and any(word.startswith(source.text) and word != source.text for word in words):
        yield
    fitting = [word for word in words if source.text.startswith(word)]
    return source.take(max(map(len, fitting), default=0))


def until(source: Source, words: Sequence[str], sink: Sink) -> Wait[str]:
    """Reads up to the first of the words and the word itself, which is the result; at the end all, result empty.

    What is before it goes to `sink` as it comes, but for text that may yet begin a word.
    """
    while True:
        at, word = _first(source, words)
        if at > 0:
            sink(source.take(at))
        if word:
            return source.take(len(word))
        if source.ended:
            return ""
        yield


def collect(source: Source, *words: str) -> Wait[tuple[str, str]]:
    """Reads as `until` does: what is before the word, and the word."""
    parts: list[str] = []
    word = yield from until(source, words, parts.append)
    return "".join(parts), word


def _first(source: Source, words: Sequence[str]) -> tuple[int, str]:
    """How many characters are settled, and the word that stands right behind them, if one does."""
    text = source.text
    found = [(at, -len(word), word) for word in words if (at := text.find(word)) >= 0]
    at, _, word = min(found) if found else (len(text), 0, "")
    if source.ended:
        return at, word
    for start in range(max(0, len(text) - max(map(len, words), default=1) + 1), at):
        # A longer word may begin earlier than the one that is complete.
        if any(other.startswith(text[start:]) for other in words):
            return start, ""
    return at, word
