"""Admission: which waiting request gets which slot, and what the slot already holds of its prompt.

Requests are admitted in the order of their arrival; one that waits for a certain slot, or for its twin to read
the prompt of both, lets others pass.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from stoker.core.request import Request
from stoker.core.work import Keep, Traits
from stoker.scheduler.kept import Kept
from stoker.scheduler.sequence import Phase, Sequence
from stoker.scheduler.slots import Place, SlotTable


@dataclass(frozen=True, slots=True)
class Terms:
    """What the command line says about it."""

    similarity: float
    shared: bool
    """A prompt may begin with a copy from an idle slot that is not its own."""
    continuous: bool
    """False: one request at a time."""
    cache: int
    """Bytes of the prompt cache in memory; 0 = none, negative = no limit."""


class Admission:
    def __init__(self, terms: Terms, traits: Traits) -> None:
        self._traits, self._continuous = traits, terms.continuous
        self.table = SlotTable(
            traits.slots, similarity=terms.similarity, recurrent=traits.recurrent, shared=terms.shared
        )
        self.kept = Kept(terms.cache, traits)
        self._waiting: deque[Request] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def surplus(self) -> int:
        """Requests that wait although every idle slot has found one."""
        return len(self._waiting) - self.table.idle

    @property
    def awaited(self) -> Collection[int]:
        """The requests whose prompts others that wait will take over."""
        return {request.twin for request in self._waiting}

    def add(self, request: Request) -> None:
        self._waiting.append(request)

    def withdraw(self, ids: Collection[int]) -> None:
        """Requests that nobody wants any more."""
        self._waiting = deque(request for request in self._waiting if request.id not in ids)

    def admit(self, running: Mapping[int, Sequence]) -> Iterator[tuple[Request, Place]]:
        """Gives slots away, one at a time: whoever takes a pair adds it to `running` before the next one."""
        still: deque[Request] = deque()
        while self._waiting:
            request = self._waiting.popleft()
            alone = not self._continuous and bool(running)
            place = None if alone or self._early(request, running) else self._place(request, running)
            if place is not None:
                yield request, place
                continue
            still.append(request)
            if alone or not self.table.idle:
                break
        self._waiting = still + self._waiting

    def leave(self, sequence: Sequence, content: tuple[int, ...]) -> None:
        """The sequence's slot is idle again and holds these tokens."""
        self.table.leave(sequence.slot, content, sequence.request.adapters)

    def orders(self) -> tuple[tuple[Keep, ...], tuple[int, ...]]:
        """What the device has to keep and to drop for the places that were given since the last call."""
        return self.kept.orders()

    def forget(self) -> None:
        """The model was given up, and everything that slots and the cache held with it."""
        for slot in self.table.slots:
            slot.content = ()
        self.kept.clear()

    def _early(self, request: Request, running: Mapping[int, Sequence]) -> bool:
        """True while the request's twin is still reading the prompt of both."""
        twin = running.get(request.twin)
        return twin is not None and twin.phase is Phase.PREFILL and not twin.tokens

    def _place(self, request: Request, running: Mapping[int, Sequence]) -> Place | None:
        """A slot, and where its columns come from: from its twin's, if that serves more than any other place."""
        place = self.table.take(request)
        if place is None:
            return None
        twin = running.get(request.twin)
        whole = len(request.prompt) - 1
        if twin is not None and twin.serves(request.prompt, recurrent=self._traits.recurrent) and whole > place.cached:
            place = replace(place, cached=whole, source=twin.slot)
        return self.kept.improve(place, request)
