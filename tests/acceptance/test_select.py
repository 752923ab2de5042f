import re
from itertools import product
from pathlib import Path

import pytest

from stoker.acceptance.select import Rule, Setting, select
from stoker.core.counters import Kind

BLOCK = (Kind.MTP, Kind.DFLASH, Kind.GLIMMER)
TABLE: dict[tuple[Kind, str], tuple[Rule | None, bool]] = {
    **{(kind, "greedy"): (Rule.GREEDY, False) for kind in Kind},
    **{(kind, "default"): (Rule.MATCH, False) for kind in Kind},
    **{(kind, "stochastic"): (Rule.STOCHASTIC, False) for kind in Kind if kind is not Kind.PROMPT_LOOKUP},
    (Kind.PROMPT_LOOKUP, "stochastic"): (Rule.MATCH, False),
    **{(kind, "argmax"): (Rule.ARGMAX, False) for kind in BLOCK},
    (Kind.PROMPT_LOOKUP, "argmax"): (Rule.MATCH, True),
    (Kind.DRAFT_MODEL, "argmax"): (Rule.MATCH, True),
    (Kind.DSPARK, "argmax"): (None, True),
}
SETTINGS = {"default": Setting.MATCH, "stochastic": Setting.STOCHASTIC, "argmax": Setting.ARGMAX}


def test_the_table_names_every_cell() -> None:
    assert set(TABLE) == set(product(Kind, ("greedy", *SETTINGS)))


@pytest.mark.parametrize(("cell", "expected"), TABLE.items(), ids=lambda value: "-".join(map(str, value)))
def test_every_cell_selects_its_rule(cell: tuple[Kind, str], expected: tuple[Rule | None, bool]) -> None:
    kind, column = cell
    rule, warned = expected
    selected = select(kind, SETTINGS.get(column, Setting.STOCHASTIC), greedy=column == "greedy")
    assert selected.rule == rule
    assert bool(selected.warning) is warned


@pytest.mark.parametrize("setting", Setting)
@pytest.mark.parametrize("kind", Kind)
def test_a_greedy_request_builds_no_distribution_under_any_setting(kind: Kind, setting: Setting) -> None:
    assert select(kind, setting, greedy=True).rule is Rule.GREEDY


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.PROMPT_LOOKUP])
def test_stochastic_without_a_proposal_distribution_falls_back_under_its_own_name(kind: Kind) -> None:
    assert select(kind, Setting.STOCHASTIC, greedy=False, has_q=False).rule is Rule.MATCH_WITHOUT_Q


def test_only_argmax_at_a_temperature_is_biased() -> None:
    biased = {
        (kind, setting, greedy)
        for kind, setting, greedy in product(Kind, Setting, (True, False))
        if not select(kind, setting, greedy=greedy).lossless
    }
    assert biased == {(kind, Setting.ARGMAX, False) for kind in BLOCK}


DOCUMENT = Path(__file__).parents[2] / "docs" / "speculative-acceptance.md"
COLUMNS = ("greedy", "default", "stochastic", "argmax")


def documented() -> dict[tuple[str, str], tuple[str | None, bool]]:
    """The cells of the documentation's path table: (drafter, column) → rule, warned."""
    section = DOCUMENT.read_text("utf-8").split("## Which path runs which")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line][2:]
    return {
        (row[0].strip("`"), column): (
            rule[1] if (rule := re.match(r"`([a-z-]+)`", cell)) else None,
            cell.endswith("warned"),
        )
        for row in rows
        for column, cell in zip(COLUMNS, row[1:], strict=True)
    }


def test_the_documentation_has_the_same_table() -> None:
    assert documented() == {(kind.value, column): cell for (kind, column), cell in TABLE.items()}


def test_the_documentation_names_every_rule() -> None:
    text = DOCUMENT.read_text("utf-8").split("## Which path")[0]
    assert all(f"| `{rule}` |" in text for rule in Rule)
