"""Running completions whose thoughts may be ended from outside: those that asked for `reasoning_control`."""

from collections.abc import Callable, Sequence


class Controls:
    """By the id that the client knows a completion by. Lives on the event loop."""

    def __init__(self) -> None:
        self._requests: dict[str, tuple[int, ...]] = {}

    def enter(self, id: str, requests: Sequence[int]) -> None:
        self._requests[id] = tuple(requests)

    def leave(self, id: str) -> None:
        """Idempotent, also for who never entered."""
        self._requests.pop(id, None)

    def end_thought(self, id: str, end: Callable[[int], bool]) -> str:
        """Tells `end` each of the completion's requests; the result says why nothing came of it, or is empty."""
        if id not in self._requests:
            return "no running completion of this id has reasoning_control"
        ended = [end(request) for request in self._requests[id]]
        return "" if any(ended) else "the completion is not reasoning"
