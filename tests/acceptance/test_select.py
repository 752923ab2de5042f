from itertools import product

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
