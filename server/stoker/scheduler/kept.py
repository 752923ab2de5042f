"""What the prompt cache in memory holds: tokens and sizes, never an array. Pure bookkeeping of ids.

A content that leaves its slot is kept until room is needed; then the one that was used least recently
goes. A prompt that begins like a kept content takes its columns from there, and leaves it for others.
"""

from dataclasses import dataclass, replace

from stoker.core.request import Request
from stoker.core.work import Keep, Traits
from stoker.scheduler.slots import Place, common_prefix, reusable, usable
from stoker.scheduler.views import KeptView

WORTH = 64
"""A content is fetched whole: it must save one token for so many columns at least."""


@dataclass(frozen=True, slots=True)
class Entry:
    key: int
    content: tuple[int, ...]
    size: int
    """Bytes."""
    adapters: tuple[float, ...] = ()
    """The scales under which it was made."""


class Kept:
    def __init__(self, limit: int, traits: Traits) -> None:
        """`limit` in bytes; 0 keeps nothing, a negative one everything."""
        self._limit, self._traits = limit, traits
        self._entries: dict[int, Entry] = {}
        """From the least to the most recently used."""
        self._keep: list[Keep] = []
        self._drop: list[int] = []
        self._pinned: set[int] = set()
        """Keys that the coming plan speaks of."""
        self._keys = 0
        self._view = KeptView(limit=limit)

    @property
    def view(self) -> KeptView:
        return replace(self._view, entries=len(self._entries), size=self._size)

    def improve(self, place: Place, request: Request) -> Place:
        """The place, with the columns of a kept content if that serves more; keeps what the slot loses by it."""
        found = self._find(request) if reusable(request) else None
        shared = 0 if found is None else self._usable(found, request)
        if found is not None and shared > place.cached and WORTH * (shared - place.cached) >= len(found.content):
            self._touch(found)
            place = replace(place, cached=shared, source=-1, kept=found.key)
            self._view = replace(self._view, hits=self._view.hits + 1, tokens=self._view.tokens + shared)
        again = request.adapters == place.adapters and self._serves(request.prompt, place.lost)
        if place.lost and not again:
            self._add(place)
        return place

    def orders(self) -> tuple[tuple[Keep, ...], tuple[int, ...]]:
        """What the device has to keep and to drop for the places that were given since the last call."""
        orders = tuple(self._keep), tuple(self._drop)
        self._keep, self._drop = [], []
        self._pinned.clear()
        return orders

    def clear(self) -> None:
        """Nothing is kept any more, and the device knows."""
        self._entries.clear()

    @property
    def _size(self) -> int:
        return sum(entry.size for entry in self._entries.values())

    def _usable(self, entry: Entry, request: Request) -> int:
        same = entry.adapters == request.adapters
        return usable(entry.content, request.prompt, recurrent=self._traits.recurrent) if same else 0

    def _find(self, request: Request) -> Entry | None:
        return max(self._entries.values(), key=lambda entry: self._usable(entry, request), default=None)

    def _touch(self, entry: Entry) -> None:
        self._entries[entry.key] = self._entries.pop(entry.key)
        self._pinned.add(entry.key)

    def _add(self, place: Place) -> None:
        """Keeps what a slot loses, unless it is kept already or larger than everything that may go for it."""
        content = place.lost
        alike = [entry for entry in self._entries.values() if entry.adapters == place.adapters]
        for entry in alike:
            if self._serves(entry.content, content):
                self._touch(entry)
                return
        size = len(content) * self._traits.bytes_per_column + self._traits.bytes_per_slot
        for entry in [entry for entry in alike if self._serves(content, entry.content)]:
            self._remove(entry)
        if not self._make_room(size):
            return
        self._keys += 1
        self._entries[self._keys] = Entry(self._keys, content, size, place.adapters)
        self._pinned.add(self._keys)
        self._keep.append(Keep(place.slot, self._keys))

    def _serves(self, content: tuple[int, ...], other: tuple[int, ...]) -> bool:
        """True if whatever the other one is good for, this one is too."""
        if self._traits.recurrent:
            return content == other
        return common_prefix(content, other) == len(other)

    def _make_room(self, size: int) -> bool:
        if self._limit <= 0:
            return self._limit < 0
        free = [entry for entry in self._entries.values() if entry.key not in self._pinned]
        if self._size - sum(entry.size for entry in free) + size > self._limit:
            return False
        for entry in free:
            if self._size + size <= self._limit:
                break
            self._remove(entry)
            self._view = replace(self._view, evicted=self._view.evicted + 1)
        return True

    def _remove(self, entry: Entry) -> None:
        if entry.key not in self._pinned:
            del self._entries[entry.key]
            self._drop.append(entry.key)
