"""All slot caches of one model: what stands in for each of mlx-lm's caches, and what is done to whole rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache, make_prompt_cache

from stoker.core.errors import StartError
from stoker.models.kv_types import KVTypes
from stoker.models.layout import Layout
from stoker.models.recurrent import FAMILIES, SlotStates, filled, kept
from stoker.models.slots import STEP, SlotKV
from stoker.models.span import ROUND, Span
from stoker.models.taps import Record
from stoker.models.view import View

Contents = list[tuple[mx.array | None, mx.array | None]]
"""Keys and values by layer. Whoever holds them makes the next write copy the buffers."""

CUDA_GRAIN = 256
"""MLX's CUDA backend has cuDNN make a plan of about 20 ms, on the host, for each new number of columns that
attention reads (ml-explore/mlx, scaled_dot_product_attention.cpp; measured in lablup/mlxcel #1817)."""


@dataclass(frozen=True, slots=True)
class Forward:
    """What one forward gets and leaves."""

    slots: tuple[int, ...]
    """In the order of their buffer rows, which is the order of the forward's rows."""
    span: Span
    caches: list[SlotKV | ArraysCache]
    """For the model, in its order."""
    before: list[Sequence[mx.array | None]]
    """By recurrent layer, the states that the forward starts from."""
    record: Record

    @property
    def recurrent(self) -> list[ArraysCache]:
        return [cache for cache in self.caches if isinstance(cache, ArraysCache)]


@dataclass(frozen=True, slots=True)
class Form:
    """What one layer keeps of one slot: types and shapes."""

    columns: bool
    """True: keys and values, whose second axis is the columns."""
    parts: tuple[tuple[str, tuple[int, ...]], ...]

    def of(self, length: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The same of a slot of so many columns."""
        if not self.columns:
            return self.parts
        return tuple((dtype, (shape[0], length, *shape[2:])) for dtype, shape in self.parts)


class Caches:
    """The caches of a fixed number of slots. `limit` is the most columns that the buffers may hold for each.

    Raises StartError, naming the model and the kind, for a cache of mlx-lm's that nothing stands in for.
    """

    def __init__(self, model: nn.Module, slots: int, limit: int, types: KVTypes | None = None) -> None:
        stand_ins = [_stand_in(model, cache, types or KVTypes()) for cache in make_prompt_cache(model)]
        self._stand_ins: list[SlotKV | SlotStates] = stand_ins
        self._kv = [cache for cache in stand_ins if isinstance(cache, SlotKV)]
        self._states = [cache for cache in stand_ins if isinstance(cache, SlotStates)]
        self._layout = Layout(slots, limit, STEP, CUDA_GRAIN if mx.cuda.is_available() else 0)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Committed columns, by slot."""
        return tuple(self._layout.lengths)

    @property
    def limit(self) -> int:
        return self._layout.limit

    @property
    def recurrent(self) -> bool:
        return bool(self._states)

    @property
    def buffers(self) -> list[mx.array]:
        """Keys and values, as they will be when what was built is evaluated. Not to be held."""
        return [buffer for cache in self._kv for buffer in cache.buffers]

    @property
    def contents(self) -> Contents:
        """The very buffers, as they are now."""
        return [(cache.keys, cache.values) for cache in self._kv]

    @contents.setter
    def contents(self, contents: Contents) -> None:
        for cache, (keys, values) in zip(self._kv, contents, strict=True):
            cache.keys, cache.values = keys, values

    @property
    def states(self) -> list[mx.array]:
        """Recurrent states, likewise; these may be held."""
        return [state for cache in self._states for state in cache.arrays]

    def marker(self) -> list[mx.array]:
        """One small array that is computed when all keys and values are written, and holds no buffer then."""
        corners = [buffer[:1, :1, :1, :1].reshape(1) for buffer in self.buffers]
        return [mx.concatenate(corners)] if corners else []

    def arrange(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Bring these slots' rows side by side; returns the slots in the order of their rows."""
        for pair in self._layout.place(slots).exchanges:
            self._move(self._layout.exchange(pair))
        return self._layout.order(slots)

    def open(self, slots: tuple[int, ...], width: int, record: Record) -> Forward:
        """Make every cache ready for a forward of these slots, which `arrange` has put into order."""
        span = self._layout.span(self._layout.row(slots[0]), len(slots), width)
        caches: list[SlotKV | ArraysCache] = []
        before: list[Sequence[mx.array | None]] = []
        for stand_in in self._stand_ins:
            if isinstance(stand_in, SlotKV):
                stand_in.open(span)
                caches.append(stand_in)
            else:
                before.append(stand_in.gather(slots))
                caches.append(filled(before[-1]))
        return Forward(slots, span, caches, before, record)

    def commit(self, forward: Forward, counts: Sequence[int]) -> list[mx.array]:
        """Keep `counts[r]` columns of the forward's row r; returns the new recurrent states, lazy."""
        if not any(counts):
            return []
        calls = {id(call.cache): call for call in forward.record.calls}
        after = [
            kept(calls[id(cache)], before, counts, forward.span.width)
            for cache, before in zip(forward.recurrent, forward.before, strict=True)
        ]
        for states, new in zip(self._states, after, strict=True):
            states.store(forward.slots, new)
        for slot, count in zip(forward.slots, counts, strict=True):
            self.resize(slot, self._layout.lengths[slot] + count)
        return [state for layer in after for state in layer]

    def resize(self, slot: int, length: int) -> None:
        """Set a slot's length; at 0 its recurrent state goes too."""
        self._layout.lengths[slot] = length
        if length == 0:
            for states in self._states:
                states.forget(slot)

    def copy(self, source: int, target: int) -> None:
        """One slot's content into another, whose own is lost."""
        self.resize(target, 0)
        self.resize(target, self._layout.lengths[source])
        self._move({self._layout.row(source): self._layout.row(target)})
        for states in self._states:
            states.copy(source, target)

    def read(self, slot: int) -> list[list[mx.array]]:
        """One slot's content by layer, lazy: keys and values, or the states of a recurrent layer."""
        row, length = self._layout.row(slot), self._layout.lengths[slot]
        if not length:
            return []
        return [
            cache.read(row, length)
            if isinstance(cache, SlotKV)
            else [s for s in cache.gather((slot,)) if s is not None]
            for cache in self._stand_ins
        ]

    def view(self, caches: Sequence[int], slots: Sequence[int]) -> View:
        """Keys and values of some caches (by their place) in the rows of these slots, where they lie."""
        rows = [self._layout.row(slot) for slot in slots]
        first, last = min(rows), max(rows)
        lengths = tuple(self._layout.length(row) for row in range(first, last + 1))
        columns = max(lengths)
        if min(lengths) < columns:
            columns = min(-(-columns // ROUND) * ROUND, self._layout.size.columns)
        kv = [self._stand_ins[place] for place in caches]
        parts = tuple(cache.peek(slice(first, last + 1), columns) for cache in kv if isinstance(cache, SlotKV))
        return View(tuple(row - first for row in rows), lengths, parts)

    def forms(self, slot: int) -> list[Form]:
        """What the layers of `read` look like, for any number of columns."""
        return [
            Form(isinstance(cache, SlotKV), tuple((str(part.dtype), part.shape) for part in parts))
            for cache, parts in zip(self._stand_ins, self.read(slot), strict=True)
        ]

    def put(self, slot: int, length: int, layers: list[list[mx.array]]) -> None:
        """What `read` gave, into a slot whose own content is lost. Lazy."""
        self.resize(slot, 0)
        if not length:
            return
        self.resize(slot, length)
        row = self._layout.row(slot)
        self._layout.reserve(1 + row)
        for cache, parts in zip(self._stand_ins, layers, strict=True):
            if isinstance(cache, SlotKV):
                cache.put(row, parts, self._layout.size)
            else:
                cache.store((slot,), parts)

    def _move(self, moves: dict[int, int]) -> None:
        columns = max((self._layout.length(row) for pair in moves.items() for row in pair), default=0)
        if columns == 0:
            return
        self._layout.reserve(1 + max(moves.values()))
        for cache in self._kv:
            cache.move(moves, columns, self._layout.size)


def _stand_in(model: nn.Module, cache: object, types: KVTypes) -> SlotKV | SlotStates:
    if type(cache) is KVCache:
        return SlotKV(types=types)
    if type(cache) is RotatingKVCache and not cache.keep:
        return SlotKV(cache.max_size, types)
    if type(cache) is ArraysCache and model.model_type in FAMILIES:
        return SlotStates(len(cache.cache))
    raise StartError(
        f"{type(model).__module__}.{type(model).__name__}: rows of different lengths cannot share its cache"
        f" {type(cache).__name__}; choose a model of another architecture"
    )
