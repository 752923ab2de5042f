"""Keys and values of a target's rows where they lie, for a network that attends to them. Nothing is copied."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class View:
    """The buffer rows from the first to the last of some slots, others between them included."""

    rows: tuple[int, ...]
    """For each slot that was asked for, its place among the view's rows."""
    lengths: tuple[int, ...]
    """Committed columns of each of the view's rows: what lies behind them is not of any sequence."""
    layers: tuple[tuple[mx.array, mx.array], ...]
    """For each cache that was asked for, [R, heads, columns, dim] each, from column 0 on. Not to be held past the
    next forward, which would have to copy the buffers."""

    @property
    def level(self) -> bool:
        """True: all rows stand at one length, and the layers end there."""
        return min(self.lengths) == max(self.lengths)


def spread(rows: Sequence[int], size: int, parts: mx.array) -> mx.array:
    """[B, …] to [R, …]: each part to its row of a view; the rows between repeat another's part."""
    where = {row: n for n, row in enumerate(rows)}
    order = [where.get(row, 0) for row in range(size)]
    return parts if order == list(range(len(parts))) else parts[mx.array(order)]


def gathered(rows: Sequence[int], parts: mx.array) -> mx.array:
    """[R, …] back to [B, …]."""
    return parts if tuple(rows) == tuple(range(len(parts))) else parts[mx.array(list(rows))]
