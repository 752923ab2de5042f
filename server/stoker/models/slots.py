"""Key/value caches with one length per row: rollback is subtraction. They stand under mlx-lm's models as those are.

A forward of width w writes row r's keys and values at its length and lets each position see the ones
up to itself (or the last `window`). Nothing is moved to take columns back: only the kept ones are added
to the row's length, and the next forward overwrites the rest. So padding, rejected proposals and tokens
past an end are one thing, columns not kept.

MLX updates a buffer in place only while nobody else holds it, a task that still reads it included;
else it copies the buffer first. So these caches never hand their buffers out for keeping. Starting the
next forward while this one still runs is safe as far as MLX prepares fewer tasks ahead than a forward
has: true on the CPU even for one layer (no growth measured, MLX 0.32.4), not measured on a GPU.
"""

import mlx.core as mx

from stoker.models.kv_types import Cast, KVTypes, Packing
from stoker.models.span import Size, Span, padded

Form = tuple[mx.Dtype, int]
"""Type and length of a head's vector."""
STEP = 256
"""Buffers grow by at least this many columns."""


class SlotKV:
    """Stands in for mlx-lm's KVCache and, with a window, for its RotatingKVCache.

    Buffers are [rows, heads, columns, dim] in the model's own dtype, or packed. A window limits what is seen,
    not what is stored.
    """

    def __init__(self, window: int | None = None, types: KVTypes = KVTypes()) -> None:  # noqa: B008 (frozen)
        self.window = window
        self.types = types
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self._span: Span | None = None
        self._read_as: tuple[Form, Form] | None = None
        """What the model reads where packed columns are stored."""

    @property
    def span(self) -> Span:
        if self._span is None:
            raise RuntimeError("a slot cache is used outside of a forward")
        return self._span

    def open(self, span: Span) -> None:
        """Every forward begins here, with its rows and their lengths."""
        self._span = span

    # What mlx-lm's models ask of a cache

    @property
    def offset(self) -> int | mx.array:
        return self.span.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write [B, heads, w, dim], read [B, heads, columns, dim]: the columns that `make_mask` speaks of."""
        self.keys = _write(self.keys, _stored(keys, self.types.keys), self.span)
        self.values = _write(self.values, _stored(values, self.types.values), self.span)
        self._read_as = ((keys.dtype, keys.shape[-1]), (values.dtype, values.shape[-1]))
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """What the last write made readable. Views: to hold them past the forward costs a copy of the buffers."""
        span = self.span
        if self.keys is None or self.values is None or self._read_as is None:
            raise RuntimeError("a slot cache is read before it was written")
        rows, columns = slice(span.start, span.stop), slice(span.bottom(self.window), span.top)
        keys, values = self.keys[rows, :, columns], self.values[rows, :, columns]
        key_form, value_form = self._read_as
        return _seen(keys, self.types.keys, key_form), _seen(values, self.types.values, value_form)

    def make_mask(self, N: int, return_array: bool = False, window_size: int | None = None) -> mx.array | str | None:
        if self.span.width != N:
            raise ValueError(f"a mask of {N} columns is asked in a forward of {self.span.width}")
        return self.span.mask(self.window, window_size, return_array)

    # Whole rows

    @property
    def buffers(self) -> list[mx.array]:
        return [buffer for buffer in (self.keys, self.values) if buffer is not None]

    def move(self, moves: dict[int, int], columns: int, size: Size) -> None:
        """Copy rows at once, each key to its value: the first `columns` columns. Waits for the device.

        Sources are read before anything is written, so a swap is two moves. The wait makes sure that
        the copies are finished and the buffers are free to be changed in place.
        """
        self.keys = _moved(self.keys, moves, columns, size)
        self.values = _moved(self.values, moves, columns, size)

    def read(self, row: int, columns: int) -> list[mx.array]:
        """The first columns of a row, `[heads, columns, dim]` each, lazy."""
        return [buffer[row, :, :columns] for buffer in self.buffers]

    def peek(self, rows: slice, columns: int) -> tuple[mx.array, mx.array]:
        """The first columns of some rows, as views: see `View.layers`."""
        if self.keys is None or self.values is None:
            raise RuntimeError("a slot cache is read before it was written")
        return self.keys[rows, :, :columns], self.values[rows, :, :columns]

    def put(self, row: int, parts: list[mx.array], size: Size) -> None:
        """Write what `read` gave as the first columns of a row."""
        if parts:
            keys, values = parts
            self.keys, self.values = _put(self.keys, row, keys, size), _put(self.values, row, values, size)


def _stored(new: mx.array, packing: Packing | Cast | None) -> mx.array:
    return new if packing is None else packing.pack(new)


def _seen(columns: mx.array, packing: Packing | Cast | None, form: Form) -> mx.array:
    return columns if packing is None else packing.unpack(columns, *form)


def _write(buffer: mx.array | None, new: mx.array, span: Span) -> mx.array:
    if buffer is None:
        buffer = mx.zeros((span.size.rows, new.shape[1], span.size.columns, new.shape[3]), new.dtype)
    buffer = _grown(buffer, span.size)
    if span.level:
        first = span.active[0]
        buffer[span.start : span.stop, :, first : first + span.width] = new
        return buffer
    if span.scattered:
        new = padded(new, span)
        return mx.put_along_axis(buffer, mx.broadcast_to(span.targets(), new.shape), new, axis=2)
    for i, first in enumerate(span.active):
        fit = min(span.width, span.size.columns - first)
        buffer[span.start + i, :, first : first + fit] = new[i, :, :fit]
    return buffer


def _grown(buffer: mx.array, size: Size) -> mx.array:
    """The buffer with room for that many rows and columns: a copy when it must grow, else itself."""
    rows, columns = size.rows - buffer.shape[0], size.columns - buffer.shape[2]
    return mx.pad(buffer, [(0, rows), (0, 0), (0, columns), (0, 0)]) if rows or columns else buffer


def _put(buffer: mx.array | None, row: int, part: mx.array, size: Size) -> mx.array:
    if buffer is None:
        buffer = mx.zeros((size.rows, part.shape[0], size.columns, part.shape[2]), part.dtype)
    buffer = _grown(buffer, size)
    buffer[row, :, : part.shape[1]] = part
    return buffer


def _moved(buffer: mx.array | None, moves: dict[int, int], columns: int, size: Size) -> mx.array | None:
    if buffer is None:
        return None
    buffer = _grown(buffer, size)
    copies = mx.take(buffer[:, :, :columns], mx.array(list(moves)), axis=0)
    mx.eval(copies, buffer)
    for i, row in enumerate(moves.values()):
        buffer[row, :, :columns] = copies[i]
    mx.eval(buffer)
    return buffer
