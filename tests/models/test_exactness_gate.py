import json
from pathlib import Path

import pytest

from models import tiny
from stoker.models import exactness_gate as module
from stoker.models.comparison import Comparison
from stoker.models.exactness import Report, Window, probe
from stoker.models.exactness_gate import Exactness, Mode, establish
from stoker.models.exactness_store import Store
from stoker.models.shelf import Subject
from stoker.models.target import Target

pytestmark = pytest.mark.mlx
SAME, NEAR, OFF = Comparison(100), Comparison(100, 5, 1e-5, 1e-6), Comparison(100, 90, 4.0, 0.5)
REPORT = Report(
    4,
    8,
    Window.PASSED,
    {2: SAME, 3: NEAR, 4: OFF, 5: SAME, 6: SAME},
    {1: NEAR, 2: SAME, 3: SAME, 4: SAME, 5: NEAR, 6: OFF},
    1.5,
)


def test_a_width_is_used_if_its_grade_is_what_was_asked_for_or_better() -> None:
    bitwise, decided, off = (Exactness(mode, REPORT) for mode in Mode)
    assert [width for width in range(9) if bitwise.admits(width)] == [0, 1, 2]
    assert [width for width in range(9) if decided.admits(width)] == [0, 1, 2, 3, 5]
    assert [width for width in range(9) if off.admits(width)] == list(range(9))


def test_a_row_alone_is_not_held_to_what_company_does() -> None:
    assert [width for width in range(9) if Exactness(Mode.BITWISE, REPORT).admits(width, 1)] == [0, 1, 2, 5, 6]
    assert [width for width in range(9) if Exactness(Mode.DECIDED, REPORT).admits(width, 1)] == [0, 1, 2, 3, 5, 6]


def test_the_widest_in_use_is_not_above_the_limit_and_at_least_one() -> None:
    decided = Exactness(Mode.DECIDED, REPORT)
    assert [decided.widest(limit) for limit in (0, 1, 2, 3, 4, 5, 6, 99)] == [1, 1, 2, 3, 3, 5, 5, 5]
    assert decided.widest(99, 1) == 6
    assert Exactness(Mode.OFF).widest(99) == 99


def test_without_a_report_nothing_but_plain_steps_is_used() -> None:
    assert Exactness(Mode.DECIDED).widest(8) == 1
    assert Exactness(Mode.DECIDED).admits(1)


def test_props_hold_plain_data_for_every_width() -> None:
    said = json.loads(json.dumps(Exactness(Mode.DECIDED, REPORT).describe(), allow_nan=False))
    assert (said["mode"], said["rows"], said["window"]) == ("decided", 4, "passed")
    assert said["alone"]["4"] == {"used": False, "grade": "neither", "bytes": 100, "differing": 90, "largest": 4.0}
    assert said["alone"]["6"]["used"]
    assert (said["company"]["6"]["used"], said["company"]["6"]["grade"]) == (False, "neither")
    assert (said["company"]["1"]["used"], said["company"]["1"]["grade"]) == (True, "decided")
    assert Exactness(Mode.OFF).describe() == {"mode": "off"}


def test_the_log_says_what_was_found_and_what_is_not_used() -> None:
    assert Exactness(Mode.DECIDED, REPORT).lines() == [
        "exactness (decided), a row alone: widths 2, 5-6 bitwise, 3 decided, 4 neither",
        "exactness (decided), 4 rows together: widths 2 bitwise, 1, 3, 5 decided, 4, 6 neither",
        "widths 4, 6 are not used: 180 of 400 bytes of the logits differ, by 4 at most "
        "(--exactness off uses them all the same)",
    ]
    assert Exactness(Mode.OFF).lines() == ["exactness (off): nothing was measured"]


def test_the_log_names_company_where_only_that_is_refused_and_a_window_that_was_not_passed() -> None:
    report = Report(2, 8, Window.COSTLY, {2: SAME}, {1: SAME, 2: OFF}, 1.0)
    lines = Exactness(Mode.DECIDED, report).lines()
    assert lines[0] == "exactness (decided), a row alone: widths 2 bitwise (past the window: costly)"
    assert lines[2].startswith("widths 2 are not used in company: 90 of 200 bytes")
    alone = Report(1, 8, Window.NONE, {2: SAME}, {}, 1.0)
    assert Exactness(Mode.BITWISE, alone).lines() == ["exactness (bitwise), a row alone: widths 2 bitwise"]


# Measured once


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, Subject("m", "f", "w", "d", "b", "s"))


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The widths of every probe that is really made."""
    made: list[tuple[int, ...]] = []

    def counted(target: Target, widths: tuple[int, ...], rows: int) -> Report:
        made.append(widths)
        return probe(target, widths, rows)

    monkeypatch.setattr(module, "probe", counted)
    return made


def test_a_second_start_measures_nothing(store: Store, probes: list[tuple[int, ...]]) -> None:
    target = Target(tiny.llama(), 2, 64)
    first = establish(Mode.DECIDED, target, 4, store)
    again = establish(Mode.BITWISE, target, 3, store)
    assert (probes, again.mode, again.report) == ([(2, 3, 4)], Mode.BITWISE, first.report)
    assert first.widest(99) == 4
    assert target.lengths == (0, 0)


def test_what_was_measured_in_company_serves_a_single_slot_without_it(
    store: Store, probes: list[tuple[int, ...]]
) -> None:
    together = establish(Mode.DECIDED, Target(tiny.llama(), 4, 64), 3, store).report
    alone = establish(Mode.DECIDED, Target(tiny.llama(), 1, 64), 3, store).report
    assert together is not None
    assert alone is not None
    assert (probes, alone.rows, alone.company, alone.block) == ([(2, 3)], 1, {}, together.block)
    assert store.load() == together


def test_wider_widths_and_a_corrupt_file_are_measured_again(store: Store, probes: list[tuple[int, ...]]) -> None:
    target = Target(tiny.llama(), 1, 64)
    establish(Mode.DECIDED, target, 2, store)
    establish(Mode.DECIDED, target, 3, store)
    store.shelf.path.write_text("{")
    assert establish(Mode.DECIDED, target, 3, store).report == store.load()
    assert probes == [(2,), (2, 3), (2, 3)]


@pytest.mark.parametrize(
    ("mode", "widest", "context"), [(Mode.OFF, 8, 64), (Mode.DECIDED, 1, 64), (Mode.DECIDED, 8, 1)]
)
def test_nothing_is_measured_where_nothing_depends_on_it(
    mode: Mode, widest: int, context: int, store: Store, probes: list[tuple[int, ...]]
) -> None:
    found = establish(mode, Target(tiny.llama(), 1, context), widest, store)
    assert (probes, found.report, store.shelf.path.exists()) == ([], None, False)
