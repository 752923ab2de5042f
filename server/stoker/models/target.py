"""The model that decides: one forward for rows at any mix of lengths, of which any number of columns is kept.

Everything here runs on the device thread. Building a forward is host work and evaluates nothing; the
caller evaluates what it needs. To overlap host and device, keep, then build and start the next forward
while this one runs; `slots.py` says when that could cost a copy.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import mlx.core as mx
from mlx import nn

from stoker.core.errors import StartError
from stoker.models.adapters import Adapters
from stoker.models.caches import Caches, Contents, Forward
from stoker.models.kv_types import KVTypes
from stoker.models.layout import positions
from stoker.models.recurrent import arrays
from stoker.models.snapshot import Snapshot
from stoker.models.taps import Record, Taps
from stoker.models.view import View

_MODEL_FAULTS = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)
"""What a model raises when a cache is not what it expects."""


class Target:
    """A model, its slot caches, and what a tick needs of them.

    `context` is the most columns that a slot may keep, `room` what the buffers hold beyond it for
    padding. Raises StartError, naming the model's class, where slot caches cannot stand under it.
    Nothing is allocated before rows and columns come into use. `adapters` are those that were put into the model.
    """

    def __init__(
        self,
        model: nn.Module,
        slots: int,
        context: int,
        room: int = 64,
        *,
        adapters: Adapters | None = None,
        types: KVTypes | None = None,
    ) -> None:
        self.model, self.slots, self.context = model, slots, context
        self._types = types or KVTypes()
        self._caches = Caches(model, slots, context + max(room, 1), self._types)
        self._adapters = adapters or Adapters(model)
        self._scales: list[tuple[float, ...]] = [()] * slots
        self._taps = Taps(model)
        if self._caches.recurrent:
            self._taps.put(range(len(self._taps)))
        self._turn = 0
        self._learn_shapes()

    @property
    def recurrent(self) -> bool:
        """True: a row cannot be cut, only continued or erased."""
        return self._caches.recurrent

    @property
    def depth(self) -> int:
        """Decoder layers."""
        return len(self._taps)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Committed columns, by slot."""
        return self._caches.lengths

    @property
    def bytes_when_full(self) -> int:
        """What the caches of all slots take at full context, padding included."""
        return self.slots * (self._caches.limit * self.bytes_per_column + self.bytes_per_slot)

    def verify(
        self, slots: Sequence[int], ids: mx.array, capture: Sequence[int] = (), *, revocable: bool = False
    ) -> "Verification":
        """One forward: `ids` [B, w] int32, row r continues `slots[r]`. Nothing of it is evaluated.

        `capture` names decoder layers whose output is wanted. Of a verification that was not kept so far
        nothing can be kept any more. ValueError for rows and slots that do not match. A `revocable` one
        can be taken back before it is evaluated: see `Verification.revoke`.
        """
        if not slots or len(set(slots)) != len(slots) or ids.shape[0] != len(slots):
            raise ValueError(f"{ids.shape[0]} rows of ids for the slots {list(slots)}")
        order = self.arrange(slots)
        self._taps.put(capture)
        before = self._caches.contents if revocable else None
        forward = self._caches.open(order, ids.shape[1], Record(tuple(capture)))
        inputs = ids if order == tuple(slots) else ids[mx.array(positions(order, slots))]
        logits = self._run(inputs, forward, [self._scales[slot] for slot in order])
        return Verification(self, tuple(slots), forward, logits, self._turn, before)

    def arrange(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Bring these slots' rows side by side; returns them in the order in which `verify` reorders nothing.

        Where a row with content must move (at most one exchange for each slot that joined or left), this
        waits for the device. As with `verify`, what was not kept so far cannot be kept any more.
        """
        self._turn += 1
        return self._caches.arrange(slots)

    def adapt(self, slot: int, scales: tuple[float, ...]) -> None:
        """What is run in this slot from now on has the adapters at these scales, `()` at none."""
        if scales and len(scales) != self._adapters.count:
            raise ValueError(f"{len(scales)} scales for {self._adapters.count} adapters")
        self._scales[slot] = scales

    def truncate(self, slot: int, length: int) -> None:
        """Cut a row; 0 erases it, recurrent state too. ValueError where a recurrent row would be cut."""
        have = self.lengths[slot]
        if not 0 <= length <= have:
            raise ValueError(f"slot {slot} holds {have} columns and cannot be cut to {length}")
        if self.recurrent and 0 < length < have:
            raise ValueError(f"slot {slot} has a recurrent state and cannot be cut from {have} columns to {length}")
        self._caches.resize(slot, length)

    def copy(self, source: int, target: int) -> None:
        """One row's content into another slot, whose own is lost. Waits for the device."""
        self._turn += 1
        if source != target:
            self._caches.copy(source, target)

    def view(self, caches: Sequence[int], slots: Sequence[int]) -> View:
        """Keys and values of some layers' caches, for a network that attends to them. Builds, evaluates nothing.

        `caches`: places in the order of the model's caches. To be used up before the next `verify` is evaluated.
        """
        return self._caches.view(caches, slots)

    def key_heads(self, cache: int) -> tuple[int, int]:
        """Key heads of a cache by its place, and their width."""
        _, (heads, _, dim) = self._forms[cache].parts[0]
        return heads, dim

    def snapshot(self, slot: int) -> Snapshot:
        """A slot's content, copied to the host. Waits for the device."""
        return Snapshot.of(self._caches.read(slot), self.lengths[slot])

    def put(self, slot: int, snapshot: Snapshot) -> None:
        """A snapshot into a slot, whose own content is lost. ValueError, and nothing changed, if it does not fit.

        Waits for the device. As with `verify`, what was not kept so far cannot be kept any more.
        """
        if snapshot.length > self.context:
            raise ValueError(f"{snapshot.length} columns exceed the context of {self.context}")
        expected = [form.of(snapshot.length) for form in self._forms] if snapshot.length else []
        if snapshot.forms != expected:
            raise ValueError("the columns are of another model, or of another type")
        self._turn += 1
        self._caches.put(slot, snapshot.length, snapshot.arrays())
        mx.eval(self._caches.buffers, self._caches.states)

    def commit(self, forward: Forward, counts: Sequence[int]) -> list[mx.array]:
        """What `Verification.keep` does, with the rows in the forward's order. Returns the new recurrent states."""
        for slot, before, count in zip(forward.slots, forward.span.active, counts, strict=True):
            if count and self.lengths[slot] != before:
                raise ValueError(f"slot {slot} was cut to {self.lengths[slot]} columns while a forward of it was open")
            if before + count > self.context:
                raise ValueError(f"slot {slot}: {before} + {count} columns exceed the context of {self.context}")
        with self._adapters.scaled([self._scales[slot] for slot in forward.slots]):
            return self._caches.commit(forward, counts)  # a recurrent layer may be run once more

    def is_newest(self, turn: int) -> bool:
        """True while no forward was built after the one of that number: the caches are still as it left them."""
        return turn == self._turn

    def restore(self, before: Contents) -> None:
        """What `Verification.revoke` does."""
        self._turn += 1
        self._caches.contents = before

    def marker(self) -> list[mx.array]:
        """Small arrays that are computed when every key and value of the newest forward is written."""
        return self._caches.marker()

    def _run(self, ids: mx.array, forward: Forward, scales: Sequence[tuple[float, ...]]) -> mx.array:
        with self._taps.recording(forward.record), self._adapters.scaled(scales):
            return self.model(ids, cache=forward.caches)

    def _learn_shapes(self) -> None:
        """Build (never evaluate) a ragged forward on caches of its own: it tells sizes, and whether it can be done."""
        trial = Caches(self.model, slots=3, limit=4, types=self._types)
        every = (1.0,) * self._adapters.count
        for slot, length in enumerate((2, 0, 1)):
            trial.resize(slot, length)
        try:
            forward = trial.open((0, 1, 2), 2, Record(()))
            logits = self._run(mx.zeros((3, 2), mx.int32), forward, [every] * 3)
            trial.commit(forward, (2, 1, 0))
        except _MODEL_FAULTS as fault:
            name = f"{type(self.model).__module__}.{type(self.model).__name__}"
            raise StartError(f"{name} cannot take rows of different lengths in one forward: {fault}") from fault
        self.vocab: int = logits.shape[-1]
        """Width of the logits."""
        self.bytes_per_column = sum(buffer.nbytes for buffer in trial.buffers) // (3 * 4)
        """Keys and values of one column of one slot, all layers together."""
        self._forms = trial.forms(0)
        self.bytes_per_slot = sum(state.nbytes for state in trial.states) // 3
        """Recurrent states of one slot, all layers together; they do not grow with the context."""


class Verification:
    """A forward that was built. As a context manager it keeps nothing if it is left without `keep`."""

    def __init__(
        self,
        target: Target,
        slots: tuple[int, ...],
        forward: Forward,
        logits: mx.array,
        turn: int,
        before: Contents | None = None,
    ) -> None:
        self._target, self._slots, self._turn = target, slots, turn
        self._before = before
        self._forward: Forward | None = forward
        self._marker: list[mx.array] | None = None
        self._states = [state for cache in forward.recurrent for state in arrays(cache)]
        features = forward.record.features
        if forward.slots != slots:
            back = mx.array(positions(slots, forward.slots))
            logits = logits[back]
            features = {layer: feature[back] for layer, feature in features.items()}
        self.logits = logits
        """[B, w, V], lazy."""
        self.features = features
        """Residual streams behind the captured layers, [B, w, H] each, lazy."""

    @property
    def state(self) -> list[mx.array]:
        """What to evaluate so that the caches are really filled, without any logits; best after `keep`.

        Needed for a prefill only: logits cannot be had without filling the caches. May be held. To be
        asked for before the next forward is built, else RuntimeError.
        """
        if self._marker is None:
            if not self._target.is_newest(self._turn):
                raise RuntimeError("a newer forward has taken over the caches")
            self._marker = self._target.marker()
        return self._marker + self._states

    def keep(self, counts: Sequence[int]) -> None:
        """Commit `counts[r]` of row r's columns, 0..w, exactly once. Host numbers only: waits for nothing.

        RuntimeError after `keep`, `close` or the building of a newer forward.
        """
        forward = self._forward
        if forward is None or not self._target.is_newest(self._turn):
            raise RuntimeError("this forward was kept or abandoned before")
        width = forward.span.width
        if len(counts) != len(self._slots) or not all(0 <= count <= width for count in counts):
            raise ValueError(f"cannot keep {list(counts)} of {width} columns in {len(self._slots)} rows")
        self._states = self._target.commit(forward, [counts[i] for i in positions(forward.slots, self._slots)])
        self.close()

    def commit_to(self) -> None:
        """It will be evaluated: it cannot be revoked any more, and lets go of the buffers of before."""
        self._before = None

    def revoke(self) -> None:
        """As if it had never been built, so that no later forward computes it. RuntimeError if that is too late."""
        if self._before is None or not self._target.is_newest(self._turn):
            raise RuntimeError("this forward cannot be taken back any more")
        self._target.restore(self._before)
        self._before = None
        self.close()

    def close(self) -> None:
        """Nothing more is kept. Lets go of what the forward recorded."""
        self._forward = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
