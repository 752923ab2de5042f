"""Slot caches of a drafter's own network: the target's, for a network that reads more than ids."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx import nn

from stoker.models.caches import Caches
from stoker.models.layout import positions
from stoker.models.snapshot import Snapshot
from stoker.models.taps import Record

ROOM = 64
"""Columns beyond the context: what a ragged forward pads, and proposals that nobody asked for."""


class Columns:
    """Keys and values of a network by slot. Nothing is evaluated here."""

    def __init__(self, net: nn.Module, slots: int, context: int) -> None:
        self._caches = Caches(net, slots, context + ROOM)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Committed columns, by slot."""
        return self._caches.lengths

    def run(
        self,
        slots: Sequence[int],
        counts: Sequence[int],
        inputs: Sequence[mx.array],
        call: Callable[[Sequence[mx.array], list[Any]], mx.array],
    ) -> mx.array:
        """One forward in which row r continues `slots[r]`, of which `counts[r]` columns stay.

        `inputs` are [B, w, …] in the order of `slots`, as is the result of `call(inputs, caches)`.
        """
        order = self._caches.arrange(slots)
        inward = positions(order, slots)
        ordered = [array[mx.array(inward)] for array in inputs] if order != tuple(slots) else inputs
        forward = self._caches.open(order, inputs[0].shape[1], Record(()))
        out = call(ordered, list(forward.caches))
        self._caches.commit(forward, [counts[n] for n in inward])
        return out if order == tuple(slots) else out[mx.array(positions(slots, order))]

    def cut(self, slot: int, length: int) -> None:
        """Keep the first `length` columns of a slot; what lies behind is overwritten."""
        self._caches.resize(slot, length)

    def copy(self, source: int, slot: int) -> None:
        """One slot's columns into another, whose own are lost. Waits for the device."""
        if source != slot:
            self._caches.copy(source, slot)

    def snapshot(self, slot: int) -> Snapshot:
        """A slot's columns, copied to the host. Waits for the device."""
        return Snapshot.of(self._caches.read(slot), self.lengths[slot])

    def put(self, slot: int, snapshot: Snapshot) -> None:
        """What `snapshot` gave, into a slot whose own columns are lost. Waits for the device."""
        self._caches.put(slot, snapshot.length, snapshot.arrays())
        mx.eval(self._caches.buffers)

    def marker(self) -> list[mx.array]:
        """Small arrays that are computed when everything that was run is written."""
        return self._caches.marker()
