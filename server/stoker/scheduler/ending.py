"""Where an answer ends: end token, stop string, token budget, full context, indentation, time.

llama-server's order of checks (its `process_token`): a stop string first; then the context and
the budget; then the two limits that only a new line can trigger; an end token has the last word.
Pure state, no clock: the caller says how long generation has run.
"""

from dataclasses import dataclass, replace

from stoker.core.events import StopType
from stoker.core.request import Limits
from stoker.text.stop import Shown, StopMatcher


@dataclass(frozen=True, slots=True)
class Step:
    """What one token did: the text it lets through, and the reason if it was the last one."""

    shown: Shown
    stop: StopType | None


class Ending:
    def __init__(self, limits: Limits, room: int) -> None:
        """`room`: tokens that fit the slot beside the prompt."""
        self._limits, self._room = limits, room
        self._matcher = StopMatcher(limits.stop)
        self._count = 0
        self._text = ""
        self._line = 0
        self._cut: int | None = None
        self._unshown = ""
        """What the stop strings let through and the indentation does not yet."""
        self._sent = 0
        """Characters shown."""
        self.truncated = False
        self.shifted = False
        """True: the slot has given up tokens for this answer."""
        self.has_new_line = False
        self.word = ""

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated; at least 1 while the answer goes on."""
        budget = self._room if self._limits.predict < 0 else min(max(self._limits.predict, 1), self._room)
        return budget - self._count

    @property
    def length(self) -> int:
        """Characters pushed so far, a stop string's included."""
        return len(self._text)

    @property
    def text(self) -> str:
        """The answer so far, without its stop string and without a line that was cut away."""
        text = self._matcher.text
        return text if self._cut is None else text[: self._cut]

    def push(self, text: str, *, end: bool, elapsed_ms: float) -> Step:
        """One more token: its text, whether it is an end token, milliseconds since the prompt's end."""
        self._count += 1
        self._text += text
        stop = self._limit()
        if stop is None and self._too_shallow():
            stop = StopType.LIMIT
        if "\n" in text:
            self.has_new_line = True
            if 0 < self._limits.predict_ms < elapsed_ms:
                stop = stop or StopType.LIMIT
        if end:
            stop = StopType.EOS
        shown = self._indented(self._matcher.push(text, last=stop is not None), last=stop is not None)
        if shown.word is not None:
            self.word, self.truncated = shown.word, self.shifted
            return Step(shown, StopType.WORD)
        return Step(shown, stop)

    def _indented(self, shown: Shown, *, last: bool) -> Shown:
        """The same without text of a line that may yet be cut away. Upstream streams such text and takes it back.

        A line's leading blanks stay in any case, what follows them once they are seen to be enough.
        """
        if self._limits.indent <= 0:
            return shown
        self._unshown += shown.text
        out = self._unshown[: max(self._sure(last=last or shown.word is not None) - self._sent, 0)]
        self._unshown, self._sent = self._unshown[len(out) :], self._sent + len(out)
        return replace(shown, text=out)

    def _sure(self, *, last: bool) -> int:
        """How many characters no indentation will take away."""
        if last:
            return len(self._text) if self._cut is None else self._cut
        line = self._line or self._text.find("\n") + 1
        if not line:
            return len(self._text)
        if self._line and self._depth(line) >= self._limits.indent:
            following = self._text.find("\n", line) + 1
            return following + self._depth(following) if following else len(self._text)
        return line + self._depth(line)

    def _depth(self, line: int) -> int:
        """Blanks at the beginning of the line that starts there."""
        rest = self._text[line:]
        return len(rest) - len(rest.lstrip(" \t"))

    def _limit(self) -> StopType | None:
        self.truncated = self.shifted or self._count >= self._room
        return StopType.LIMIT if self.remaining <= 0 else None

    def _too_shallow(self) -> bool:
        """True when the newest line has text at less than the least indentation; that line is cut away."""
        if self._limits.indent <= 0 or not self.has_new_line:
            return False
        if self._line:
            depth = self._depth(self._line)
            if self._line + depth < len(self._text) and depth < self._limits.indent:
                self._cut = self._line + depth
                return True
        at = self._text.find("\n", self._line)
        if at >= 0:
            self._line = at + 1
        return False
