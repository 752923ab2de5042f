"""Where a block drafter's forward stands: each row's context, the columns new to it, and its block.

A row's columns in the slot caches are its context, in the target's own positions, and behind it the
block. Block columns are written there too, but never committed, so the next forward overwrites them:
rollback is subtraction here as well, and no context is ever copied to be joined with a block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from stoker.models.nets.block_config import Sight
from stoker.models.span import Span

Hole = tuple[int, int]
"""Columns [start, stop) that hold nothing: they were run before the drafter could read along."""
NO_HOLE: Hole = (0, 0)


@dataclass(frozen=True, slots=True)
class Place:
    """Rows at their own lengths. `span.width` = the most fresh context columns of a row + the block's."""

    span: Span
    fresh: tuple[int, ...]
    """Context columns that this forward adds, by row."""
    block: int
    """Columns of the block."""
    holes: tuple[Hole, ...]
    _masks: dict[tuple[Sight, int], mx.array] = field(default_factory=dict)

    @property
    def ends(self) -> tuple[int, ...]:
        """Where each row's block begins: its context's length, the new columns included."""
        return tuple(held + new for held, new in zip(self.span.active, self.fresh, strict=True))

    @property
    def level(self) -> bool:
        """True when all blocks begin at one column, behind equally many new ones."""
        return self.span.level and len(set(self.fresh)) == 1

    @property
    def offset(self) -> int | mx.array:
        """Position of the block's first column: one number, else int32 [B]."""
        return self.ends[0] if self.level else mx.array(self.ends, mx.int32)

    def joined(self, context: mx.array, block: mx.array) -> mx.array:
        """New context [B, S, H] with the block [B, L, H] right behind each row's own: [B, S + L, H]."""
        both = mx.concatenate([context, block], axis=1) if context.shape[1] else block
        if len(set(self.fresh)) == 1:
            return both
        most, width = context.shape[1], both.shape[1]
        order = [[_source(column, new, most, width) for column in range(width)] for new in self.fresh]
        return mx.take_along_axis(both, mx.array(order, mx.int32)[:, :, None], axis=1)

    def mask(self, sight: Sight, bottom: int) -> mx.array | None:
        """Which of the columns `bottom`.. each block row sees: bool [B or 1, 1, L, columns], None: all of them."""
        holey = any(hole[1] > hole[0] for hole in self.holes)
        reach = None if sight.window is None else self.ends[0] + self.block - bottom
        whole = self.level and self.span.tight and not holey and not sight.causal
        if whole and (reach is None or reach <= (sight.window or 0)):
            return None
        key = (sight, bottom)
        if key not in self._masks:
            self._masks[key] = self._mask(sight, bottom)
        return self._masks[key]

    def _mask(self, sight: Sight, bottom: int) -> mx.array:
        same = self.level and len(set(self.holes)) == 1
        ends, holes = (self.ends[:1], self.holes[:1]) if same else (self.ends, self.holes)
        end = _column(ends)
        query = end + mx.arange(self.block)[:, None]
        key = mx.arange(bottom, self.span.top)
        context = (key < end) & ~((key >= _column([a for a, _ in holes])) & (key < _column([b for _, b in holes])))
        block = (key >= end) & (key <= query if sight.causal else key < end + self.block)
        mask = context | block
        if sight.window is not None:
            mask = mask & (query - key < sight.window)
            mask = mask & (key - query < sight.window) if sight.both else mask
        return mask


def _column(numbers: Sequence[int]) -> mx.array:
    return mx.array(list(numbers), mx.int32)[:, None, None, None]


def _source(column: int, fresh: int, most: int, width: int) -> int:
    """Where a joined row's column comes from: its own new context, then the block, then anything."""
    return column if column < fresh else min(most + column - fresh, width - 1)
