"""A drafter's context: cutting, skipping, copying and keeping slots, and growing in one forward or many."""

from pathlib import Path

import mlx.core as mx
import pytest

from models import tiny
from rounds.drafters import net
from stoker.models.nets.context import Context
from stoker.models.target import Target

pytestmark = pytest.mark.mlx
ROWS = mx.random.normal((40, 3 * tiny.WIDTH), key=mx.random.key(1))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    target = Target(tiny.llama(), 3, 64)
    return Context(net("dflash", target, tmp_path), 3, 64)


def drafted(context: Context, slot: int) -> mx.array:
    return context.draft([slot], [[]], [5])


def test_columns_may_come_one_by_one_or_all_at_once(context: Context) -> None:
    context.extend(0, [ROWS[:20]])
    for n in range(20):
        context.extend(1, [ROWS[n : n + 1]])
    context.draft([2], [[ROWS[:7], ROWS[7:19]]], [5])
    context.draft([2], [[ROWS[19:20]]], [5])
    for slot in (1, 2):
        assert context.length(slot) == 20
        assert mx.allclose(drafted(context, 0), drafted(context, slot), atol=1e-4)


def test_a_block_leaves_no_trace(context: Context) -> None:
    context.extend(0, [ROWS[:5]])
    before = drafted(context, 0)
    context.draft([0], [[]], [77])
    assert mx.array_equal(before, drafted(context, 0))


def test_cutting_takes_columns_back(context: Context) -> None:
    context.extend(0, [ROWS[:9]])
    context.extend(1, [ROWS[:5]])
    context.cut(0, 5)
    assert mx.allclose(drafted(context, 0), drafted(context, 1), atol=1e-5)
    with pytest.raises(ValueError, match="has 5 columns and cannot be cut to 6"):
        context.cut(0, 6)


def test_holes_grow_shrink_and_vanish(context: Context) -> None:
    context.extend(0, [ROWS[:4]])
    context.skip(0, 3)
    assert (context.length(0), context.hole(0)) == (4, (0, 0)), "nothing to skip"
    context.skip(0, 9)
    assert context.hole(0) == (4, 9)
    context.extend(0, [ROWS[:2]])
    context.skip(0, 15)
    assert context.hole(0) == (4, 15), "two holes become one"
    context.cut(0, 6)
    assert context.hole(0) == (4, 6)
    context.cut(0, 4)
    assert context.hole(0) == (0, 0)


def test_copies_and_snapshots_carry_columns_and_holes(context: Context) -> None:
    context.skip(0, 3)
    context.extend(0, [ROWS[:6]])
    context.copy(0, 1)
    context.put(2, *context.snapshot(0))
    for slot in (1, 2):
        assert (context.length(slot), context.hole(slot)) == (9, (0, 3))
        assert mx.array_equal(drafted(context, 0), drafted(context, slot))
    context.copy(1, 1)
    assert context.length(1) == 9


def test_the_size_of_a_column_is_that_of_its_keys_and_values(context: Context) -> None:
    assert context.bytes_per_column == 2 * 2 * 2 * 16 * 4
