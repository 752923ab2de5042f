"""Rows and sizes as host arithmetic; no array is made but the offsets of a span."""

import random

import pytest

from stoker.models.layout import Layout, positions
from stoker.models.span import Size

pytestmark = pytest.mark.mlx


def layout(*lengths: int) -> Layout:
    made = Layout(len(lengths), limit=1000, step=256)
    made.lengths[:] = lengths
    made.reserve(len(lengths))
    return made


def settle(made: Layout, slots: list[int]) -> int:
    """Carry a placement out; returns how many columns it had to copy."""
    copied = 0
    for pair in made.place(slots).exchanges:
        copied += sum(made.length(source) for source in pair if made.length(source))
        made.exchange(pair)
    return copied


def test_a_group_that_stands_together_moves_nothing() -> None:
    assert layout(5, 6, 7, 8).place([1, 2]).exchanges == ()


def test_a_decoding_group_and_a_prefill_beside_it_take_turns_without_a_copy() -> None:
    made = layout(50, 60, 70, 0)
    assert [settle(made, group) for group in ([0, 1, 2], [3], [0, 1, 2], [3])] == [0, 0, 0, 0]


def test_an_empty_slot_takes_the_row_beside_the_group_for_nothing() -> None:
    made = layout(50, 0, 0, 60)
    assert settle(made, [0]) == 0
    made = layout(50, 0, 0, 0)
    assert settle(made, [0, 3]) == 0
    assert (made.row(0), made.row(3)) == (0, 1)


def test_a_row_that_left_from_the_middle_costs_one_exchange_of_the_shortest() -> None:
    made = layout(500, 40, 300, 20)
    assert len(made.place([0, 2, 3]).exchanges) == 1
    assert settle(made, [0, 2, 3]) == 60  # rows 1 and 3, not 0 and 1


def test_an_exchange_copies_only_rows_that_hold_something() -> None:
    made = layout(5, 0, 7)
    assert made.exchange((0, 1)) == {0: 1}
    assert made.exchange((1, 2)) == {1: 2, 2: 1}
    assert [made.slot(row) for row in range(3)] == [1, 2, 0]


def test_any_sequence_of_groups_keeps_rows_and_slots_in_step() -> None:
    rng, made = random.Random(4), layout(*range(8))
    for _ in range(200):
        group = rng.sample(range(8), rng.randint(1, 8))
        settle(made, group)
        order = made.order(group)
        first = made.row(order[0])
        assert [made.row(slot) for slot in order] == list(range(first, first + len(group)))
        assert sorted(made.row(slot) for slot in range(8)) == list(range(8))
        assert made.length(made.row(5)) == 5


def test_rows_double_and_columns_grow_in_steps_up_to_the_limit() -> None:
    made = Layout(6, limit=1000, step=256)
    sizes: list[Size] = []
    for rows, longest in ((1, 10), (2, 250), (3, 300), (5, 600), (6, 990)):
        made.lengths[0] = longest
        made.reserve(rows, 8)
        sizes.append(made.size)
    assert sizes == [Size(1, 256), Size(2, 512), Size(4, 512), Size(6, 768), Size(6, 1000)]


def test_the_first_slot_in_use_gets_the_first_row_whatever_its_number() -> None:
    made = Layout(4, limit=100, step=32)
    settle(made, [3])
    span = made.span(made.row(3), 1, 5)
    assert (span.start, span.size.rows) == (0, 1)


def test_a_span_tells_lengths_by_row_not_by_slot() -> None:
    made = layout(5, 0, 7)
    made.exchange((0, 1))
    assert made.span(0, 2, 1).lengths == (0, 5, 7)
    assert made.span(0, 2, 1).active == (0, 5)


def test_positions_reorder_there_and_back() -> None:
    slots, order = (7, 2, 9), (2, 7, 9)
    there, back = positions(order, slots), positions(slots, order)
    assert [slots[i] for i in there] == list(order)
    assert [order[i] for i in back] == list(slots)
