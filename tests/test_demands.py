"""The page of demands against the tests: each demand has some, in each file that the page names."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "demands.md"
DEMANDS = {*(f"A{n}" for n in range(1, 6)), *(f"B{n}" for n in range(1, 5)), *(f"C{n}" for n in range(1, 5))} | {
    *(f"D{n}" for n in range(1, 11)), "E1", "E2", "F1",
}  # fmt: skip


def rows() -> dict[str, str]:
    """What the page says of each demand's tests."""
    found = re.findall(r"^\| ([A-F]\d+) \|[^|]*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == len(dict(found))
    return dict(found)


def test_every_demand_has_a_row() -> None:
    assert set(rows()) == DEMANDS
    assert len(DEMANDS) == 26


def test_every_live_file_of_a_row_has_tests_of_that_demand() -> None:
    for demand, said in rows().items():
        files = re.findall(r"`(tests/[^`]+)`", said)
        assert files, demand
        for name in files:
            assert (ROOT / name).exists(), name
        own = [
            name for name in files if name.startswith("tests/live/") and not name.endswith(("leaving.py", "company.py"))
        ]
        assert own
        for name in own:
            text = (ROOT / name).read_text(encoding="utf-8")
            assert re.search(rf"def test_{demand.lower()}[a-f]?_", text), (demand, name)
