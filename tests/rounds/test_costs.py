"""The cost table as arithmetic: what a few cells, some of them wrong, say of all the others."""

import pytest

from stoker.rounds.costs import Cell, CostTable

SMOLLM2 = {(1, 1): 0.054, (1, 8): 0.076, (4, 1): 0.077, (4, 8): 0.136}
"""Seconds measured on 2 CPU cores (spec/scheduler.md, prototypes)."""


def table(cells: dict[tuple[int, int], float], count: int = 50) -> CostTable:
    return CostTable({shape: Cell(seconds, count) for shape, seconds in cells.items()})


def test_a_cell_that_was_often_measured_is_what_was_measured() -> None:
    assert table(SMOLLM2).cost(4, 8) == pytest.approx(0.136, rel=0.02)


@pytest.mark.parametrize(
    ("cell", "low", "high"), [((1, 4), 0.054, 0.076), ((2, 1), 0.054, 0.077), ((2, 8), 0.076, 0.136)]
)
def test_an_unmeasured_cell_lies_between_its_neighbours(cell: tuple[int, int], low: float, high: float) -> None:
    assert low < table(SMOLLM2).cost(*cell) < high


def test_nothing_measured_costs_nothing_yet() -> None:
    assert table({}).cost(1, 1) == 0.0


def test_one_cell_alone_already_grows_with_rows_and_width() -> None:
    one = table({(1, 1): 0.01})
    assert one.cost(1, 1) < one.cost(1, 4) < one.cost(1, 8) < one.cost(4, 8)


def test_cost_never_falls_with_rows_or_width_of_what_was_not_measured() -> None:
    odd = table({(1, 1): 0.05, (8, 1): 0.04, (1, 8): 0.045})
    assert odd.cost(2, 2) <= odd.cost(4, 2) <= odd.cost(4, 4) <= odd.cost(16, 16)


def test_a_machine_that_computes_column_by_column_is_known_from_four_corners() -> None:
    def truth(rows: int, width: int) -> float:
        return 0.056 + 0.0008 * rows + 0.0037 * rows * width

    corners = table({shape: truth(*shape) for shape in [(1, 1), (1, 8), (8, 1), (8, 8)]})
    for shape in [(8, 3), (4, 4), (2, 1), (5, 1), (6, 5)]:
        assert corners.cost(*shape) == pytest.approx(truth(*shape), rel=0.05)


def test_one_wrong_measurement_of_a_plain_tick_misleads_nobody() -> None:
    costs = table(SMOLLM2)
    before = costs.cost(5, 1)
    costs.observe(5, 1, 3 * before)
    assert costs.cost(5, 1) < 1.2 * before


def test_what_ticks_really_take_is_learned_even_where_it_is_no_plane() -> None:
    costs = table(SMOLLM2)
    for _ in range(60):
        costs.observe(4, 2, 0.130)
    assert costs.cost(4, 2) == pytest.approx(0.130, rel=0.03)


def test_measurements_move_a_cell_and_an_outlier_moves_it_only_so_far() -> None:
    costs = table({(1, 1): 0.1})
    for _ in range(60):
        costs.observe(1, 1, 0.2)
    assert costs.cost(1, 1) == pytest.approx(0.2, rel=0.02)
    costs.observe(1, 1, 100.0)
    assert costs.cost(1, 1) < 0.22


def test_a_company_that_was_measured_once_has_the_shape_of_the_target_alone() -> None:
    alone = table(SMOLLM2)
    company = CostTable({(1, 4): Cell(2 * alone.cost(1, 4), 1)}, alone)
    assert company.cost(4, 8) == pytest.approx(2 * alone.cost(4, 8), rel=0.1)
