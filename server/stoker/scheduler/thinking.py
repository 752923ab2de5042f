"""Counts the tokens of an answer's thoughts, and says when a thought must end. Knows text and numbers only."""

from stoker.core.request import ThoughtLimit


class ThoughtWatch:
    """Every thought has the whole budget: some models think more than once in an answer."""

    def __init__(self, limit: ThoughtLimit) -> None:
        self._limit = limit
        self._tail = ""
        self._spent = 0
        self._width = max(map(len, (limit.opens, *limit.closes)))
        self._ordered = False
        self.inside = limit.inside

    @property
    def ending(self) -> tuple[int, ...]:
        return self._limit.ending

    @property
    def over(self) -> bool:
        """True when the next token must not be another thought."""
        return self.inside and (self._ordered or 0 <= self._limit.budget <= self._spent)

    def push(self, text: str) -> None:
        """One more token of the answer, and the text that it completes."""
        self._tail += text
        self._spent += self.inside
        while (end := self._end()) is not None:
            self._tail = self._tail[end:]
            self.inside, self._spent, self._ordered = not self.inside, 0, False
        self._tail = self._tail[-self._width :]

    def _end(self) -> int | None:
        """Where the next tag ends in the newest text."""
        words = self._limit.closes if self.inside else (self._limit.opens,)
        return min((at + len(word) for word in words if (at := self._tail.find(word)) >= 0), default=None)

    def order_end(self) -> bool:
        """Ends the thought at the next token; False where there is none."""
        self._ordered = self.inside
        return self.inside
