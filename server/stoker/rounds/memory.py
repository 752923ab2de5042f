"""What is known of a model on a machine from earlier runs: which widths are exact, what ticks cost."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from stoker.models.exactness_store import Store
from stoker.models.shelf import Shelf, Subject, digest
from stoker.rounds.budget import Budget, Profile
from stoker.rounds.costs import Cell, CostTable
from stoker.rounds.evidence import Acceptance

log = logging.getLogger(__name__)

FOLDER = "budget"


class Memory:
    """Kept below `cache`, the directory of Stoker's cached files."""

    def __init__(self, cache: Path, subject: Subject) -> None:
        self._cache, self._subject = cache, subject
        self.exactness = Store(cache, subject)
        self.shelf = Shelf(cache, FOLDER, subject)

    def beside(self, drafter: Path | None) -> "Memory":
        """What is known of the model together with that drafter's checkpoint. OSError if that is gone."""
        if drafter is None:
            return self
        pair = replace(self._subject, weights=f"{self._subject.weights}, drafted by {digest(drafter)}")
        memory = Memory(self._cache, pair)
        memory.exactness = self.exactness
        return memory

    def budget(self) -> Budget:
        """The budget as the last run left it; a new one if there was none or it cannot be read."""
        held = self.shelf.load()
        if held is None:
            return Budget()
        try:
            budget = Budget({company: CostTable(_cells(cells)) for company, cells in held["ticks"].items()})
            budget.profiles = {company: _profile(profile) for company, profile in held.get("profiles", {}).items()}
            return budget
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.shelf.doubt(error)
            return Budget()

    def keep(self, budget: Budget) -> None:
        """Writes the budget down."""
        ticks = {
            company: {f"{rows}x{width}": [cell.seconds, cell.count] for (rows, width), cell in table.cells.items()}
            for company, table in budget.tables.items()
        }
        profiles = {
            company: {"right": it.acceptance.right, "tested": it.acceptance.tested, "requests": it.requests}
            for company, it in budget.profiles.items()
        }
        self.shelf.save({"ticks": ticks, "profiles": profiles})


def _profile(held: Any) -> Profile:
    """Raises KeyError, TypeError or ValueError for anything that `keep` has not written."""
    right, tested, requests = held["right"], held["tested"], held["requests"]
    whole = isinstance(requests, int) and requests >= 0 and len(right) == len(tested)
    if not whole or not all(0 <= float(a) <= float(b) < math.inf for a, b in zip(right, tested, strict=True)):
        raise ValueError(f"{held!r} is no profile")
    return Profile(Acceptance(right=list(map(float, right)), tested=list(map(float, tested))), requests=requests)


def _cells(held: Any) -> dict[tuple[int, int], Cell]:
    """Raises ValueError or TypeError for anything that `keep` has not written."""
    cells: dict[tuple[int, int], Cell] = {}
    for name, (seconds, count) in cast("Mapping[str, Any]", held).items():
        rows, width = (int(part) for part in name.split("x"))
        if rows < 1 or width < 1 or not isinstance(seconds, float) or not 0 < seconds < math.inf:
            raise ValueError(f"{name}: {seconds!r} is no measurement")
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"{name}: {count!r} is no number of measurements")
        cells[rows, width] = Cell(seconds, count)
    return cells
