"""Where one forward reads and writes the slot caches: host numbers, and the masks made from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import mlx.core as mx

ROUND = 64
"""Ragged forwards read a multiple of this many columns: shapes, and what a backend caches by shape, change seldom."""
NARROW = 32
"""Columns of a forward, at most, that count as a verify round or a draft: a wider one reads a prompt."""


@dataclass(frozen=True, slots=True)
class Size:
    """What the buffers hold, or must hold."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Span:
    """Rows `start`..`stop` of the buffers, each at its own length, and `width` new columns for each.

    `lengths` tells of every buffer row, the ones outside of the forward too. A row's new columns
    that do not fit into the buffers are dropped: only padding can be there.
    """

    start: int
    stop: int
    width: int
    lengths: tuple[int, ...]
    size: Size
    grain: int = 0
    """Narrow level forwards read a multiple of this many columns too; 0: as many as there are."""
    active: tuple[int, ...] = field(init=False)
    """The lengths of the forward's rows."""
    level: bool = field(init=False)
    """True when these all stand at one length and fit: slices with host numbers then do."""
    top: int = field(init=False)
    """Columns 0..`top` are read."""
    tight: bool = field(init=False)
    """True when these end with the newest column of every row."""
    offset: int | mx.array = field(init=False)
    """What a model adds to its positions: one number where that is enough, else [B] int32."""
    masks: dict[tuple[int | None, int | None], mx.array] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        active = self.lengths[self.start : self.stop]
        top = max(active) + self.width
        level = min(active) == max(active) and top <= self.size.columns
        put = partial(object.__setattr__, self)
        put("active", active)
        put("level", level)
        tight = level and not (self.grain and 1 < self.width <= NARROW)
        grain = max(self.grain, ROUND)
        put("tight", tight)
        put("top", top if tight else min(-(-top // grain) * grain, self.size.columns))
        put("offset", active[0] if level else mx.array(active, mx.int32))

    def bottom(self, window: int | None) -> int:
        """The first column that is read: any query of the forward sees it through a window of that many columns,
        or the grain wants it."""
        first = 0 if window is None else max(0, min(self.active) + 1 - window)
        return first if self.tight or not self.grain else first // self.grain * self.grain

    def mask(self, own: int | None, asked: int | None, array: bool) -> mx.array | str | None:
        """Which of the columns `bottom(own)`..`top` each query sees, as mlx-lm's caches answer it.

        None: all of them. "causal": the usual triangle at the end. Else bool, [w, columns] or
        [B, 1, w, columns]. `own` is the cache's window, `asked` the model's; the narrower one counts.
        """
        window = min((n for n in (own, asked) if n is not None), default=None)
        if self.tight:
            seen = self.top - self.bottom(own)
            if self.width == 1 and (window is None or seen <= window):
                return None
            if not array and (window is None or seen <= window):
                return "causal"
        key = (own, window)
        if key not in self.masks:
            self.masks[key] = self._mask(own, window)
        return self.masks[key]

    def _mask(self, own: int | None, window: int | None) -> mx.array:
        steps = mx.arange(self.width)
        query = (self.offset + steps)[:, None] if self.level else _across(mx.array(self.active, mx.int32), steps)
        column = mx.arange(self.bottom(own), self.top)
        mask = column <= query
        return mask if window is None else mask & (column > query - window)

    @property
    def scattered(self) -> bool:
        """True when one scatter over all buffer rows is the better write, else a slice for each row.

        Measured on 2 CPU cores, SmolLM2's shape, one layer's keys, scatter / slices in µs: 4 of 4 rows
        16 / 22, 16 of 16 rows 47 / 130, 4 of 16 rows 51 / 23. A scatter also writes `width` columns
        behind the end of the rows outside, so these must have the room.
        """
        few = 4 * (self.stop - self.start) <= self.size.rows
        return not few and max(self.lengths) + self.width <= self.size.columns

    def targets(self) -> mx.array:
        """[rows, 1, w, 1] int32: the column that each new column goes to, for the scatter."""
        return _across(mx.array(self.lengths, mx.int32), mx.arange(self.width))


def _across(lengths: mx.array, steps: mx.array) -> mx.array:
    """[rows, 1, w, 1]: the columns of a forward's new tokens."""
    return (lengths[:, None] + steps)[:, None, :, None]


def padded(new: mx.array, span: Span) -> mx.array:
    """`new` [B, heads, w, dim] with rows of zeros for the buffer rows outside of the forward."""
    above, below = span.start, span.size.rows - span.stop
    blanks: Sequence[mx.array] = [mx.zeros((n, *new.shape[1:]), new.dtype) for n in (above, below)]
    parts = [part for part in (blanks[0], new, blanks[1]) if part.shape[0]]
    return parts[0] if len(parts) == 1 else mx.concatenate(parts)
