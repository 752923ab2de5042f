import pytest

from stoker.acceptance.proposals import Proposals, proposals
from stoker.acceptance.select import Rule
from stoker.core.counters import Kind


@pytest.mark.parametrize(
    ("kind", "rule", "coupled", "said"),
    [
        (Kind.PROMPT_LOOKUP, Rule.MATCH, True, Proposals.ONE_HOT),
        (Kind.DRAFT_MODEL, Rule.GREEDY, True, Proposals.ONE_HOT),
        (Kind.DRAFT_MODEL, Rule.MATCH, True, Proposals.COUPLED),
        (Kind.DRAFT_MODEL, Rule.MATCH, False, Proposals.INDEPENDENT),
        (Kind.DFLASH, Rule.STOCHASTIC, True, Proposals.INDEPENDENT),
        (Kind.DFLASH, Rule.ARGMAX, True, Proposals.COUPLED),
    ],
)
def test_how_proposals_are_drawn_follows_from_drafter_rule_and_setting(
    kind: Kind, rule: Rule, coupled: bool, said: Proposals
) -> None:
    assert proposals(kind, rule, coupled=coupled) is said
