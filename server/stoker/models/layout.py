"""Which buffer row holds which slot. Pure host arithmetic: it says what to move, it moves nothing.

A forward needs its rows side by side. Rows that are not in it stay where they are, so a decoding
group and a prefill beside it take turns without any copy; a row that joins or leaves in the wrong
place is exchanged with one other, and an empty row moves for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.models.span import Size, Span

Exchange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a group can stand, and the rows to exchange first."""

    start: int
    exchanges: tuple[Exchange, ...]
    cost: int
    """Columns to copy."""


class Layout:
    """Slot lengths, the rows they live in, and how large the buffers are (they grow in large steps)."""

    def __init__(self, slots: int, limit: int, step: int, grain: int = 0) -> None:
        """`grain`: see `Span`."""
        self.lengths = [0] * slots
        self.limit, self.step, self.grain = limit, step, grain
        self.size = Size(0, 0)
        self._row_of = list(range(slots))

    def row(self, slot: int) -> int:
        return self._row_of[slot]

    def slot(self, row: int) -> int:
        return self._row_of.index(row)

    def length(self, row: int) -> int:
        return self.lengths[self.slot(row)]

    def place(self, slots: Sequence[int]) -> Placement:
        """The cheapest place for a group; the lowest of equals, so that the rows in use stay dense."""
        members = sorted(self._row_of[slot] for slot in slots)
        size = len(members)
        options = (self._placement(start, size, members) for start in range(len(self.lengths) - size + 1))
        return min(options, key=lambda option: (option.cost, option.start))

    def exchange(self, pair: Exchange) -> dict[int, int]:
        """Let two rows change places; returns the copies that this takes, source to destination."""
        first, second = pair
        a, b = self.slot(first), self.slot(second)
        self._row_of[a], self._row_of[b] = second, first
        wanted = ((first, second, a), (second, first, b))
        return {source: target for source, target, slot in wanted if self.lengths[slot]}

    def order(self, slots: Sequence[int]) -> tuple[int, ...]:
        """The slots in the order of their rows."""
        return tuple(sorted(slots, key=self.row))

    def span(self, start: int, size: int, width: int) -> Span:
        """The forward of rows `start`.. and `size` of them; decides how large the buffers must be for it."""
        self.reserve(start + size, width)
        by_row = [0] * len(self.lengths)
        for slot, row in enumerate(self._row_of):
            by_row[row] = self.lengths[slot]
        return Span(start, start + size, width, tuple(by_row[: self.size.rows]), self.size, self.grain)

    def reserve(self, rows: int, width: int = 0) -> None:
        """Make the plan large enough for that many rows, and `width` more columns on the longest."""
        have = self.size
        if rows > have.rows:
            rows = min(len(self.lengths), max(rows, 2 * have.rows))
        need = min(max(self.lengths) + width, self.limit)
        columns = have.columns
        if need > columns:
            wish = max(need, columns + columns // 2)
            columns = min(-(-wish // self.step) * self.step, self.limit)
        self.size = Size(max(rows, have.rows), columns)

    def _placement(self, start: int, size: int, members: list[int]) -> Placement:
        stop = start + size
        strangers = [row for row in range(start, stop) if row not in members]
        outside = [row for row in members if not start <= row < stop]
        exchanges = tuple(zip(outside, strangers, strict=True))
        cost = sum(self.length(row) for pair in exchanges for row in pair)
        top = max([stop, *(1 + there for there, here in exchanges if self.length(here))])
        if top > self.size.rows:
            cost += self.size.rows * self.size.columns
        return Placement(start, exchanges, cost)


def positions(order: Sequence[int], slots: Sequence[int]) -> list[int]:
    """Indices that bring things in the order of `slots` into the order of `order`."""
    where = {slot: i for i, slot in enumerate(slots)}
    return [where[slot] for slot in order]
