"""Keeps the exactness probe's reports on disk, one for a model on a machine, so that a start need not wait for it."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from stoker.models.comparison import Comparison
from stoker.models.exactness import VERSION, Report, Window
from stoker.models.shelf import Shelf, Subject

FOLDER = "exactness"


class Store:
    """Where one subject's report is kept."""

    def __init__(self, cache: Path, subject: Subject) -> None:
        self.shelf = Shelf(cache, FOLDER, subject)

    def load(self) -> Report | None:
        """None if there is none, or none that can be read, or one about something else."""
        held = self.shelf.load()
        if held is None:
            return None
        try:
            return _report(held["report"]) if held["version"] == VERSION else None
        except (ValueError, KeyError, TypeError) as error:
            self.shelf.doubt(error)
            return None

    def save(self, report: Report) -> None:
        self.shelf.save({"version": VERSION, "report": asdict(report)})


def _report(data: Any) -> Report:
    """Raises KeyError, TypeError or ValueError for anything that `save` has not written."""
    return Report(
        rows=_count(data["rows"]),
        prompt=_count(data["prompt"]),
        window=Window(data["window"]),
        block=_comparisons(data["block"]),
        company=_comparisons(data["company"]),
        seconds=_figure(data["seconds"]),
    )


def _comparisons(data: object) -> dict[int, Comparison]:
    if not isinstance(data, dict):
        raise TypeError(f"{data!r} is no table")
    return {int(width): _comparison(figures) for width, figures in cast("dict[str, Any]", data).items()}


def _comparison(data: Any) -> Comparison:
    figures = [_figure(data[name]) for name in ("largest", "share", "margin")]
    return Comparison(_count(data["bytes"]), _count(data["differing"]), *figures)


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _figure(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is no figure")
    return float(value)
