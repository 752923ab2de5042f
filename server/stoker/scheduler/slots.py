"""Which slot a request gets, and how much of its prompt is already there. Pure bookkeeping of ids.

llama-server's choice: the slot that was asked for; else the idle slot that shares the largest
leading part of the prompt, if that is more than `similarity` of it; else the idle slot that was
used least recently (of equals the last, so a fresh server of two slots begins with slot 1).
"""

from dataclasses import dataclass

from stoker.core.prefix import common_prefix
from stoker.core.request import Request


@dataclass(slots=True)
class Slot:
    id: int
    content: tuple[int, ...] = ()
    """The tokens whose columns the slot holds; a busy slot's are its sequence's."""
    used: int = -1
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A slot for a request, and how many of its prompt's tokens need not be run again."""

    slot: int
    cached: int


class SlotTable:
    def __init__(self, count: int, *, similarity: float, recurrent: bool) -> None:
        self.slots = [Slot(n) for n in range(count)]
        self._similarity, self._recurrent = similarity, recurrent
        self._turn = 0

    @property
    def idle(self) -> int:
        return sum(not slot.busy for slot in self.slots)

    def take(self, request: Request) -> Place | None:
        """Marks a slot busy for the request; None while none (or not the wished one) is free."""
        slot = self._choose(request)
        if slot is None:
            return None
        cached = self._reusable(slot, request)
        slot.busy, slot.content = True, ()
        return Place(slot.id, cached)

    def leave(self, slot: int, content: tuple[int, ...]) -> None:
        """The slot is idle again and holds these tokens."""
        self._turn += 1
        state = self.slots[slot]
        state.busy, state.content, state.used = False, content, self._turn

    def _choose(self, request: Request) -> Slot | None:
        if request.slot >= 0:
            wished = self.slots[request.slot % len(self.slots)]
            return None if wished.busy else wished
        idle = [slot for slot in self.slots if not slot.busy]
        if not idle:
            return None
        share = {slot.id: common_prefix(slot.content, request.prompt) / len(request.prompt) for slot in idle}
        best = max(idle, key=lambda slot: share[slot.id])
        if self._similarity > 0 and share[best.id] > self._similarity:
            return best
        return min(idle, key=lambda slot: (slot.used, -slot.id))

    def _reusable(self, slot: Slot, request: Request) -> int:
        """Leading prompt tokens that the slot holds; the last one is always run again.

        A recurrent state cannot go back: there the slot's whole content must lead the prompt.
        """
        if not request.cache_prompt:
            return 0
        shared = min(common_prefix(slot.content, request.prompt), len(request.prompt) - 1)
        if self._recurrent and shared < len(slot.content):
            return 0
        return shared
