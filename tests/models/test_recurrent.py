"""Recurrent states by slot: who shares a batch, what is copied, what is computed again."""

import mlx.core as mx
import pytest
from mlx_lm.models.cache import ArraysCache

from stoker.models.recurrent import Call, SlotStates, filled, kept

pytestmark = pytest.mark.mlx


def rows(*values: float) -> mx.array:
    return mx.array(values)[:, None]


def values(states: SlotStates, *slots: int) -> list[float]:
    (state,) = states.gather(slots)
    assert state is not None
    return [float(row) for row in state[:, 0]]


def stored(*slots: int) -> SlotStates:
    """Slot n holds the state n."""
    states = SlotStates(1)
    states.store(slots, [rows(*slots)])
    return states


def test_a_slot_without_a_state_starts_from_zeros_beside_others_and_from_nothing_alone() -> None:
    states = stored(1, 2)
    assert values(states, 2, 5) == [2, 0]
    assert states.gather((5, 6)) == [None]


def test_an_unchanged_group_gets_the_very_arrays_it_left() -> None:
    states = SlotStates(1)
    left = rows(1, 2)
    states.store((1, 2), [left])
    assert states.gather((1, 2))[0] is left


def test_groups_part_and_join_with_each_slot_keeping_its_own() -> None:
    states = stored(1, 2, 3)
    states.store((2,), [rows(20)])
    assert values(states, 3, 2, 1) == [3, 20, 1]
    states.store((1, 2), [rows(10, 21)])
    assert values(states, 1, 2, 3) == [10, 21, 3]


def test_slots_that_are_left_behind_do_not_hold_the_old_batch() -> None:
    states = stored(1, 2, 3)
    states.store((1, 2), [rows(10, 20)])
    assert sorted(array.shape[0] for array in states.arrays) == [1, 2]


def test_copies_and_erasures_concern_one_slot() -> None:
    states = stored(1, 2)
    states.copy(2, 7)
    states.copy(9, 1)
    states.forget(9)
    assert values(states, 1, 2, 7) == [0, 2, 2]


class Counting:
    """A layer whose state is the number of columns it has seen."""

    calls = 0

    def __call__(self, x: mx.array, mask: mx.array | None, cache: ArraysCache) -> mx.array:
        self.calls += 1
        seen = mx.ones(x.shape[:2]) if mask is None else mask.astype(mx.float32)
        before = 0 if cache[0] is None else cache[0]
        cache[0] = before + seen.sum(axis=1, keepdims=True)
        return x


@pytest.mark.parametrize("before", [None, rows(100, 200, 300)], ids=["from nothing", "from a state"])
@pytest.mark.parametrize(
    ("counts", "runs"), [((4, 4, 4), 1), ((4, 0, 4), 1), ((4, 2, 0), 2), ((0, 0, 0), 1), ((3, 1, 2), 2)]
)
def test_a_layer_runs_again_only_where_a_row_keeps_a_part(
    before: mx.array | None, counts: tuple[int, ...], runs: int
) -> None:
    layer, cache, x = Counting(), filled([before]), mx.zeros((3, 4, 1))
    layer(x, None, cache)
    (after,) = kept(Call(layer, cache, (x,), {"mask": None, "cache": cache}), [before], counts, 4)
    base = [0.0] * 3 if before is None else [100.0, 200.0, 300.0]
    assert [float(row) for row in after[:, 0]] == [start + count for start, count in zip(base, counts, strict=True)]
    assert layer.calls == runs
