"""What a tick costs, in seconds, by rows and width: measured cells upon a fitted surface.

A tick costs something by itself, something for each row and something for each column. That surface is
fitted to all cells, and a cell counts as much as it was measured: a single measurement on a busy machine
misleads nobody, while the steps that a backend's kernels have are learned. Host arithmetic only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RECENT = 0.1
"""Least weight of a new measurement of a cell."""
OUTLIER = 1.5
"""A measurement this many times of what was expected counts only so much: another process had the machine."""
CREDIT = 2.0
"""Measurements of a cell that weigh as much as the surface does there."""
MOST = 8
"""Measurements of a cell that the fit counts."""
USUAL = np.array([0.8, 0.1, 0.1])
"""Shares of a tick, a row and a column in the cost of one row's plain tick, before anything is known."""
PULL = 0.05
"""Weight of that guess in the fit, measured in cells."""
REFIT = 8
"""Measurements of known cells between two fits: the fit is half of what a tick's arithmetic costs."""

Floats = NDArray[np.float64]
Surface = tuple[float, float, float]
"""Seconds for a tick, for each row, and for each column of each row."""


@dataclass(slots=True)
class Cell:
    """What ticks of one shape took: a running mean in seconds, and how often it was measured."""

    seconds: float
    count: int


class CostTable:
    """Seconds of a tick by (rows, width)."""

    def __init__(self, cells: Mapping[tuple[int, int], Cell] | None = None, base: "CostTable | None" = None) -> None:
        """`base`: the table whose shape this one has as long as little was measured here."""
        self.cells: dict[tuple[int, int], Cell] = dict(cells or {})
        self.base = base
        self._surface: Surface | None = None
        self._unfitted = 0
        """Measurements since the last fit."""

    def observe(self, rows: int, width: int, seconds: float) -> None:
        """A tick of that shape took so long."""
        expected = self.cost(rows, width) or seconds
        known = (rows, width) in self.cells
        cell = self.cells.setdefault((rows, width), Cell(expected, 0))
        cell.count += 1
        cell.seconds += max(RECENT, 1.0 / cell.count) * (min(seconds, OUTLIER * expected) - cell.seconds)
        self._unfitted += 1
        if not known or self._unfitted >= REFIT:
            self._surface = None

    def cost(self, rows: int, width: int) -> float:
        """Seconds, by the surface and what was measured; 0.0 while nothing at all was measured."""
        if not self.cells:
            return 0.0
        tick, row, column = self.surface
        expected = tick + rows * (row + width * column)
        cell = self.cells.get((rows, width))
        if cell is None:
            return expected
        trust = cell.count / (cell.count + CREDIT)
        return expected ** (1.0 - trust) * cell.seconds**trust

    @property
    def surface(self) -> Surface:
        if self._surface is None:
            usual = np.array(self.base.surface) if self.base is not None and self.base.cells else USUAL
            tick, row, column = map(float, _fit(self.cells, usual))
            self._surface, self._unfitted = (tick, row, column), 0
        return self._surface


def _features(rows: int, width: int) -> Floats:
    return np.array([1.0, rows, rows * width], float)


def _fit(cells: Mapping[tuple[int, int], Cell], usual: Floats) -> Floats:
    """Least squares of the relative errors, none of the three below zero, drawn weakly to the usual proportions."""
    seconds = np.array([cell.seconds for cell in cells.values()])
    weight = np.sqrt([min(cell.count, MOST) for cell in cells.values()])
    x = np.stack([_features(*shape) for shape in cells]) / seconds[:, None] * weight[:, None]
    as_usual = x @ usual
    usual = usual * float(as_usual @ weight / (as_usual @ as_usual))
    pull = math.sqrt(PULL)
    x = np.vstack([x, np.diag(pull / np.maximum(usual, 1e-3 * float(usual.sum())))])
    y = np.concatenate([weight, pull * np.ones(len(usual))])
    free = list(range(len(usual)))
    while True:
        found = np.zeros(len(usual))
        found[free] = np.linalg.lstsq(x[:, free], y, rcond=None)[0]
        worst = min(free, key=lambda k: found[k])
        if found[worst] >= 0.0 or len(free) == 1:
            return np.maximum(found, 0.0)
        free.remove(worst)
