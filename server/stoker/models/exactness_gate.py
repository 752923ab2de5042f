"""Which widths a forward may have: what the exactness probe found, against what the user demands."""

import logging
from collections.abc import Sequence
from enum import StrEnum

from stoker.models.comparison import Comparison, Grade
from stoker.models.exactness import COMPANY, Report, Window, measurable, probe, serves
from stoker.models.exactness_store import Store
from stoker.models.target import Target

log = logging.getLogger(__name__)


class Mode(StrEnum):
    """`--exactness`: the grade that a width must have."""

    BITWISE = "bitwise"
    DECIDED = "decided"
    OFF = "off"
    """Nothing is measured, every width is used."""


class Exactness:
    """The widths in use. A width that was not measured is not, unless the mode is `off`."""

    def __init__(self, mode: Mode, report: Report | None = None) -> None:
        self.mode, self.report = mode, report

    def admits(self, width: int, rows: int = COMPANY) -> bool:
        """True if a forward of that width may be used; width 1 always may. `rows` 1 asks for a row alone."""
        if width <= 1 or self.mode is Mode.OFF:
            return True
        return self.report is not None and self.report.grade(width, rows).rank <= Grade(self.mode).rank

    def widest(self, limit: int, rows: int = COMPANY) -> int:
        """The widest forward in use that is not above the limit, at least 1."""
        return next((width for width in range(limit, 1, -1) if self.admits(width, rows)), 1)

    def describe(self) -> dict[str, object]:
        """For `/props`: what JSON can hold, by width as a string."""
        said: dict[str, object] = {"mode": str(self.mode)}
        report = self.report
        if report is None:
            return said
        for name, rows, figures in (("alone", 1, report.block), ("company", report.rows, report.company)):
            said[name] = {
                str(width): {"used": self.admits(width, rows), "grade": str(report.grade(width, rows)), **_told(found)}
                for width, found in sorted(figures.items())
            }
        return said | {"rows": report.rows, "window": str(report.window)}

    def lines(self) -> list[str]:
        """For the start-up log: what was found, and for widths that are not used the reason."""
        report = self.report
        if report is None:
            return [f"exactness ({self.mode}): nothing was measured"]
        sizes = (1,) if report.rows == 1 else (1, report.rows)
        return [self._found(report, rows) for rows in sizes] + self._refused(report)

    def _found(self, report: Report, rows: int) -> str:
        grades = {width: report.grade(width, rows) for width in sorted(report.block if rows == 1 else report.company)}
        parts = [f"{_ranges(same)} {grade}" for grade in Grade if (same := [w for w in grades if grades[w] is grade])]
        past = "" if report.window in {Window.NONE, Window.PASSED} else f" (past the window: {report.window})"
        return f"exactness ({self.mode}), {_rows(rows)}: widths {', '.join(parts) or 'none'}{past}"

    def _refused(self, report: Report) -> list[str]:
        refused = [width for width in sorted(report.block) if not self.admits(width)]
        if not refused:
            return []
        worst = sum((report.evidence(width) for width in refused), Comparison())
        scope = "" if report.rows == 1 or any(not self.admits(w, 1) for w in refused) else " in company"
        return [
            f"widths {_ranges(refused)} are not used{scope}: {worst.differing} of {worst.bytes} bytes of the logits "
            f"differ, by {worst.largest:.2g} at most (--exactness off uses them all the same)"
        ]


def establish(mode: Mode, target: Target, widest: int, store: Store, rows: int = COMPANY) -> Exactness:
    """The verdict on the widths 2..`widest`: the one kept on disk if it still holds, else measured now and kept.

    Runs on the device thread, before any request: it needs free slots, and leaves them free.
    """
    widths = measurable(target, range(2, widest + 1))
    if mode is Mode.OFF or not widths:
        return Exactness(mode)
    report = store.load()
    if report is None or not serves(report, target, widths, rows):
        log.info("exactness probe: measuring widths %s, once for this model and machine", _ranges(widths))
        report = probe(target, widths, rows)
        log.info("exactness probe: done in %.1f s", report.seconds)
        store.save(report)
    return Exactness(mode, report.alone() if min(rows, target.slots) <= 1 else report)


def _told(found: Comparison) -> dict[str, object]:
    return {"bytes": found.bytes, "differing": found.differing, "largest": found.largest}


def _rows(rows: int) -> str:
    return "a row alone" if rows == 1 else f"{rows} rows together"


def _ranges(widths: Sequence[int]) -> str:
    """`2-5, 8`."""
    runs: list[list[int]] = []
    for width in widths:
        if runs and width == runs[-1][-1] + 1:
            runs[-1].append(width)
        else:
            runs.append([width])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
