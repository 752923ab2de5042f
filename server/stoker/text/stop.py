"""Stop strings over growing text: what may be shown, what is held back, where it ends.

Rules of this file:
1. Text that may still turn out to begin a stop string is not shown.
2. The earliest match wins; of two at one place, the first in the request's list.
3. What was shown, joined, is always the beginning of `text`; at the end it is all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shown:
    """What one push lets through, and the stop string that it completed, if any."""

    text: str
    word: str | None = None


class StopMatcher:
    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._parts: list[str] = []
        self._held = ""

    def push(self, text: str, *, last: bool) -> Shown:
        """Adds `text`; `last` says that nothing follows, so that nothing need be held back."""
        held = self._held + text
        found = self._find(held)
        if found is not None:
            at, word = found
            return Shown(self._show(held[:at]), word)
        if not last and any(_may_begin(held, stop) for stop in self._stops):
            # As upstream, the whole unshown text waits, not only the part that may match.
            self._held = held
            return Shown("")
        return Shown(self._show(held))

    @property
    def text(self) -> str:
        """Everything pushed so far, cut before the stop string that ended it."""
        return "".join(self._parts) + self._held

    def _show(self, text: str) -> str:
        self._held = ""
        self._parts.append(text)
        return text

    def _find(self, held: str) -> tuple[int, str] | None:
        matches = [(at, order, stop) for order, stop in enumerate(self._stops) if (at := held.find(stop)) >= 0]
        if not matches:
            return None
        at, _, word = min(matches)
        return at, word


def _may_begin(held: str, stop: str) -> bool:
    """True when some tail of `held` is a proper beginning of `stop`."""
    return any(held.endswith(stop[:n]) for n in range(min(len(stop) - 1, len(held)), 0, -1))
