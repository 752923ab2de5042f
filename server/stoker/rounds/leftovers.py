"""What the slots of MTP heads hold between requests and beside the target's: whose columns, and where they end."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from stoker.core.prefix import common_prefix
from stoker.models.nets.columns import Columns
from stoker.models.snapshot import Snapshot
from stoker.rounds.base import Opening


@dataclass(frozen=True, slots=True)
class Left:
    """Columns of a slot. The one of position i is of token i + 1, so the last position has none yet."""

    start: int = 0
    """The position of the target that the first column belongs to."""
    tokens: tuple[int, ...] = ()
    """Of the sequence, up to that of the last column; none where there is no column."""
    stream: mx.array | None = None
    """The target's residual stream [1, H] at the position behind the last column, if it is known."""

    @property
    def stop(self) -> int:
        """The position behind the last column."""
        return max(len(self.tokens) - 1, 0)

    def agree(self, opening: Opening) -> tuple[int, mx.array | None]:
        """The position up to which the columns serve a prompt, and the stream there if its column is still to come.

        Equal tokens up to a column's own give equal columns. They serve if they reach all of what the
        target's slot holds, or all but the last position, whose stream is known; else not at all.
        """
        common, cached = common_prefix(self.tokens, opening.prompt), opening.cached
        if min(common - 1, cached) == cached > self.start:
            return cached, None
        if self.stream is not None and common == cached == self.stop + 1 and self.stop > self.start:
            return self.stop, self.stream
        return 0, None


class Holder(Protocol):
    """A request that is using a slot."""

    @property
    def left(self) -> Left: ...


class Leftovers:
    """By slot."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._holders: dict[int, Holder] = {}
        self._left: dict[int, Left] = {}
        self._kept: dict[int, tuple[Snapshot, Left]] = {}

    def bring(self, opening: Opening) -> Left:
        """Does what the target did to bring a row's columns into its slot; returns what it holds then."""
        kept, left = self._kept.get(opening.kept), self._left.pop(opening.slot, Left())
        if opening.source >= 0 and opening.source != opening.slot:
            self._columns.copy(opening.source, opening.slot)
            return self.of(opening.source)
        if kept is not None:
            self._columns.put(opening.slot, kept[0])
            return kept[1]
        return left

    def take(self, slot: int, holder: Holder) -> None:
        """The slot is in use."""
        self._holders[slot] = holder

    def leave(self, slot: int, holder: Holder) -> None:
        """It is not any more."""
        self._left[slot] = holder.left
        if self._holders.get(slot) is holder:
            del self._holders[slot]

    def of(self, slot: int) -> Left:
        holder = self._holders.get(slot)
        return self._left.get(slot, Left()) if holder is None else holder.left

    def keep(self, slot: int, key: int) -> None:
        self._kept[key] = (self._columns.snapshot(slot), self.of(slot))

    def drop(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._kept.pop(key, None)
