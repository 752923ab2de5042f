"""Which slot a request gets, and how much of its prompt is already there. Pure bookkeeping of ids.

llama-server's choice: the slot that was asked for; else the idle slot that shares the largest
leading part of the prompt, if that is more than `similarity` of it; else the idle slot that was
used least recently (of equals the last, so a fresh server of two slots begins with slot 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stoker.core.prefix import common_prefix
from stoker.core.request import Request


@dataclass(slots=True)
class Slot:
    id: int
    content: tuple[int, ...] = ()
    """The tokens whose columns the slot holds; a busy slot's are its sequence's."""
    used: int = -1
    busy: bool = False
    adapters: tuple[float, ...] = ()
    """The scales under which the content was made."""


@dataclass(frozen=True, slots=True)
class Place:
    """A slot for a request, and how many of its prompt's tokens need not be run again."""

    slot: int
    cached: int
    source: int = -1
    """The slot that these are copied from; -1: they are there, or come from `kept`."""
    kept: int = -1
    """The key of the kept content that they come from."""
    content: tuple[int, ...] = field(default=(), compare=False)
    """What the slot holds until then."""
    adapters: tuple[float, ...] = ()
    """The scales under which that was made."""

    @property
    def lost(self) -> tuple[int, ...]:
        """The content, if less than half of it stays."""
        stays = 0 if self.source >= 0 or self.kept >= 0 else self.cached
        return self.content if 2 * stays < len(self.content) else ()


class SlotTable:
    def __init__(self, count: int, *, similarity: float, recurrent: bool, shared: bool = False) -> None:
        """`shared`: a prompt may be copied from an idle slot that is not its own."""
        self.slots = [Slot(n) for n in range(count)]
        self._similarity, self._recurrent, self._shared = similarity, recurrent, shared
        self._turn = 0

    @property
    def idle(self) -> int:
        return sum(not slot.busy for slot in self.slots)

    def take(self, request: Request) -> Place | None:
        """Marks a slot busy for the request; None while none (or not the wished one) is free."""
        slot = self._choose(request)
        if slot is None:
            return None
        place = self._place(slot, request)
        slot.busy, slot.content = True, ()
        return place

    def hold(self, slot: int) -> None:
        """The slot is busy with something that is no request."""
        self.slots[slot].busy = True

    def leave(self, slot: int, content: tuple[int, ...], adapters: tuple[float, ...] = ()) -> None:
        """The slot is idle again and holds these tokens, as they look under these scales."""
        self._turn += 1
        state = self.slots[slot]
        state.busy, state.content, state.adapters, state.used = False, content, adapters, self._turn

    def _choose(self, request: Request) -> Slot | None:
        if request.slot >= 0:
            wished = self.slots[request.slot % len(self.slots)]
            return None if wished.busy else wished
        idle = [slot for slot in self.slots if not slot.busy]
        if not idle:
            return None
        share = {slot.id: self._shared_with(slot, request) / len(request.prompt) for slot in idle}
        best = max(idle, key=lambda slot: share[slot.id])
        if self._similarity > 0 and share[best.id] > self._similarity:
            return best
        return min(idle, key=lambda slot: (slot.used, -slot.id))

    def _place(self, slot: Slot, request: Request) -> Place:
        cached = self._reusable(slot, request)
        place = Place(slot.id, cached, content=slot.content, adapters=slot.adapters)
        others = [other for other in self.slots if self._shared and not other.busy and other is not slot]
        best = max(others, key=lambda other: self._reusable(other, request), default=slot)
        more = self._reusable(best, request)
        return replace(place, cached=more, source=best.id) if more > cached else place

    def _reusable(self, slot: Slot, request: Request) -> int:
        if not reusable(request) or slot.adapters != request.adapters:
            return 0
        return usable(slot.content, request.prompt, recurrent=self._recurrent)

    def _shared_with(self, slot: Slot, request: Request) -> int:
        return common_prefix(slot.content, request.prompt) if slot.adapters == request.adapters else 0


def reusable(request: Request) -> bool:
    """True if columns that exist spare the request work: an embedding needs vectors of all its tokens."""
    return request.cache_prompt and request.generates


def usable(content: Sequence[int], prompt: Sequence[int], *, recurrent: bool) -> int:
    """Leading prompt tokens that a content can serve; the last one is always run again.

    A recurrent state cannot go back: there the whole content must lead the prompt.
    """
    shared = min(common_prefix(content, prompt), len(prompt) - 1)
    return 0 if recurrent and shared < len(content) else shared
