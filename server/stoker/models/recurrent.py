"""Recurrent states by slot (short convolutions, gated delta nets, state spaces), and their rollback.

A recurrent layer folds its columns into a state, so taking columns back needs the state of before and
the layer's input: the layer is run once more, only as far as its state goes, with each row's length
set to the kept columns. mlx-lm's layers know such lengths (their batched prefill is padded at the
right). Nothing is run again where a row keeps all of its columns or none.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache

FAMILIES = frozenset({"granitemoehybrid", "lfm2", "lfm2_moe", "mamba2", "qwen3_5", "qwen3_5_moe", "qwen3_next"})
"""mlx-lm's model types whose recurrent layers honour a cache's `lengths` and their mask; each is tested.

Not nemotron_h: in mlx-lm 0.32.2 its state takes in padding (the layer passes no lengths on).
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One layer's call in a forward, kept by reference so that it can be repeated."""

    layer: Callable[..., object]
    cache: ArraysCache
    args: tuple[object, ...]
    kwargs: dict[str, object]

    def repeat(self, before: Sequence[mx.array | None], counts: Sequence[int], width: int) -> list[mx.array]:
        """The states after only `counts` columns of each row, from the states before. Lazy, and nothing else is run."""
        cache = filled(before)
        cache.prepare(lengths=list(counts))
        bound = inspect.signature(self.layer).bind(*self.args, **self.kwargs)
        bound.arguments["cache"], bound.arguments["mask"] = cache, cache.make_mask(width)
        self.layer(*bound.args, **bound.kwargs)
        return arrays(cache)


@dataclass(frozen=True, slots=True)
class Batch:
    """States of the slots that ran together, `[len(slots), ...]` each."""

    slots: tuple[int, ...]
    states: list[mx.array]

    def row(self, slot: int) -> list[mx.array]:
        i = self.slots.index(slot)
        return [state[i : i + 1] for state in self.states]


class SlotStates:
    """The states of one layer. Slots that ran together stay together, so an unchanged group copies nothing."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._home: dict[int, Batch] = {}

    @property
    def arrays(self) -> list[mx.array]:
        return [state for batch in {id(b): b for b in self._home.values()}.values() for state in batch.states]

    def gather(self, slots: tuple[int, ...]) -> Sequence[mx.array | None]:
        """The states of these slots, in order: zeros for one that has none, None where none has any."""
        homes = [self._home.get(slot) for slot in slots]
        known = next((home for home in homes if home is not None), None)
        if known is None:
            return [None] * self.size
        if known.slots == slots and all(home is known for home in homes):
            return known.states
        blank = [mx.zeros((1, *state.shape[1:]), state.dtype) for state in known.states]
        rows = [blank if home is None else home.row(slot) for slot, home in zip(slots, homes, strict=True)]
        return [mx.concatenate(list(parts)) for parts in zip(*rows, strict=True)]

    def store(self, slots: tuple[int, ...], states: list[mx.array]) -> None:
        """These slots now stand here; those they ran with before get a copy of their own."""
        left = {home_slot: home for home in map(self._home.get, slots) if home for home_slot in home.slots}
        batch = Batch(slots, states)
        for slot in slots:
            self._home[slot] = batch
        for slot, home in left.items():
            if self._home.get(slot) is home:
                self._part(slot, home)

    def copy(self, source: int, target: int) -> None:
        self.forget(target)
        if source in self._home:
            self._part(target, self._home[source], source)

    def forget(self, slot: int) -> None:
        self._home.pop(slot, None)

    def _part(self, slot: int, home: Batch, source: int | None = None) -> None:
        at = mx.array([home.slots.index(slot if source is None else source)])
        states = [mx.take(state, at, axis=0) for state in home.states]
        mx.async_eval(states)  # or a lazy copy would hold on to the whole batch
        self._home[slot] = Batch((slot,), states)


def kept(call: Call, before: Sequence[mx.array | None], counts: Sequence[int], width: int) -> list[mx.array]:
    """States after a forward of which row r keeps `counts[r]` of `width` columns. No wait, host numbers only."""
    partly = any(0 < count < width for count in counts)
    after = call.repeat(before, counts, width) if partly else arrays(call.cache)
    if all(counts):
        return after
    nothing = mx.array([count == 0 for count in counts])
    return [
        mx.where(nothing.reshape(-1, *[1] * (new.ndim - 1)), mx.zeros_like(new) if old is None else old, new)
        for old, new in zip(before, after, strict=True)
    ]


def filled(states: Sequence[mx.array | None]) -> ArraysCache:
    """A cache of mlx-lm's that starts from these states."""
    cache = ArraysCache(len(states))
    for i, state in enumerate(states):
        cache[i] = state
    return cache


def arrays(cache: ArraysCache) -> list[mx.array]:
    return [cache[i] for i in range(len(cache.cache))]
