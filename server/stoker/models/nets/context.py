"""A block drafter's keys and values of what its target has committed, for every slot, and its forwards.

Slot caches as the target's: each row at its own length, rows of a forward side by side. Committed
columns only; the block is written behind them and overwritten by the next forward. A slot's columns
stand at the target's own positions. Columns that the target took over from elsewhere, without the
drafter reading along, are a hole: they are counted and never seen.
"""

from collections.abc import Sequence

import mlx.core as mx

from stoker.models.caches import Caches
from stoker.models.layout import positions
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.place import NO_HOLE, Hole, Place
from stoker.models.slots import SlotKV
from stoker.models.snapshot import Snapshot
from stoker.models.taps import Record

Pieces = Sequence[mx.array]
"""Consecutive columns' residual streams of one row, [n, T · H] each."""


class Context:
    """`context` is the most columns of a slot that the target keeps."""

    def __init__(self, net: BlockNet, slots: int, context: int, room: int = 64) -> None:
        self.net = net
        self._caches = Caches(net, slots, context + net.layout.columns + room)
        self._holes: list[Hole] = [NO_HOLE] * slots

    def length(self, slot: int) -> int:
        """Columns that the slot stands for, its hole included."""
        return self._caches.lengths[slot]

    def hole(self, slot: int) -> Hole:
        return self._holes[slot]

    def cut(self, slot: int, length: int) -> None:
        """Leaves the first `length` columns."""
        if not 0 <= length <= self.length(slot):
            raise ValueError(
                f"the context of slot {slot} has {self.length(slot)} columns and cannot be cut to {length}"
            )
        self._caches.resize(slot, length)
        start, stop = self._holes[slot]
        self._holes[slot] = (start, min(stop, length)) if start < length else NO_HOLE

    def skip(self, slot: int, length: int) -> None:
        """Counts the columns up to `length` as run, though nothing is known of them."""
        have, (start, stop) = self.length(slot), self._holes[slot]
        if length > have:
            self._holes[slot] = (start if stop > start else have, length)
            self._caches.resize(slot, length)

    def copy(self, source: int, slot: int) -> None:
        """One slot's columns into another, whose own are lost. Waits for the device."""
        if source != slot:
            self._caches.copy(source, slot)
            self._holes[slot] = self._holes[source]

    def snapshot(self, slot: int) -> tuple[Snapshot, Hole]:
        """A slot's columns, copied to the host. Waits for the device."""
        return Snapshot.of(self._caches.read(slot), self.length(slot)), self._holes[slot]

    def put(self, slot: int, snapshot: Snapshot, hole: Hole) -> None:
        """What `snapshot` gave, into a slot whose own columns are lost. Waits for the device."""
        self._caches.put(slot, snapshot.length, snapshot.arrays())
        self._holes[slot] = hole
        mx.eval(self._caches.buffers)

    @property
    def bytes_per_column(self) -> int:
        """Keys and values of one column of one slot, all layers together."""
        config = self.net.config
        return 2 * config.layers * config.kv_heads * config.head_dim * self.net.dtype.size

    def extend(self, slot: int, features: Pieces) -> list[mx.array]:
        """One row's next columns, committed. Returns what to evaluate so that they are really there."""
        fresh = mx.concatenate(list(features))[None]
        forward = self._caches.open(self._caches.arrange([slot]), fresh.shape[1], Record(()))
        self.net.extend(self.net.condense(fresh), _slot_caches(forward.caches))
        self._caches.commit(forward, [fresh.shape[1]])
        return self._caches.marker()

    def draft(self, slots: Sequence[int], features: Sequence[Pieces], anchors: Sequence[int]) -> mx.array:
        """One forward for all rows: commits their next columns and runs a block behind each.

        Hidden states of the columns that propose, [B, columns - first, H], lazy.
        """
        order = self._caches.arrange(slots)
        places = positions(order, slots)
        fresh = [[*features[n]] for n in places]
        counts = tuple(sum(piece.shape[0] for piece in pieces) for pieces in fresh)
        columns = self.net.layout.columns
        forward = self._caches.open(order, max(counts) + columns, Record(()))
        place = Place(forward.span, counts, columns, tuple(self._holes[slot] for slot in order))
        block = self.net.block(mx.array([anchors[n] for n in places], mx.int32))
        hidden = self.net.hidden(block, self._condensed(fresh, counts), place, _slot_caches(forward.caches))
        self._caches.commit(forward, counts)
        return hidden if order == tuple(slots) else hidden[mx.array(positions(slots, order))]

    def _condensed(self, fresh: Sequence[Pieces], counts: Sequence[int]) -> mx.array:
        """All rows' new context, padded at the right: [B, most, H]."""
        most = max(counts)
        if not most:
            return mx.zeros((len(fresh), 0, self.net.config.hidden), self.net.dtype)
        width = len(self.net.config.taps) * self.net.config.hidden
        rows = [
            _padded([piece.astype(self.net.dtype) for piece in pieces], most - count, width, self.net.dtype)
            for pieces, count in zip(fresh, counts, strict=True)
        ]
        return self.net.condense(mx.stack(rows))


def _padded(pieces: Pieces, pad: int, width: int, dtype: mx.Dtype) -> mx.array:
    parts = [*pieces, *([mx.zeros((pad, width), dtype)] if pad else [])]
    return parts[0] if len(parts) == 1 else mx.concatenate(parts)


def _slot_caches(caches: Sequence[object]) -> list[SlotKV]:
    return [cache for cache in caches if isinstance(cache, SlotKV)]
