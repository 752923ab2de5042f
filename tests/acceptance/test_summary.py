"""Golden lines: scripts read them."""

from stoker.acceptance.closed_forms import Averages, ClosedForms
from stoker.acceptance.proposals import Proposals
from stoker.acceptance.select import Rule
from stoker.acceptance.summary import Run, diagnostic, summary
from stoker.core.counters import DraftCounters

STOCHASTIC = Run(Rule.STOCHASTIC, Proposals.INDEPENDENT)
COUPLED = Run(Rule.MATCH, Proposals.COUPLED)


def averages(*forms: ClosedForms) -> Averages:
    made = Averages()
    for one in forms:
        made.add(one, accepted=True)
    return made


def test_the_documents_example_with_the_field_for_proposals_before_the_parenthesis() -> None:
    counters = DraftCounters(proposed=612, tested=195, accepted=46, rounds=153)
    assert summary(STOCHASTIC, counters) == (
        "[Speculative acceptance] rule=stochastic rounds=153 proposed=612 positions_tested=195 accepted=46 "
        "per_position_acceptance=0.2359 acceptance_rate=0.0752 mean_accepted_len=0.3007 proposals=independent "
        "(stochastic (modified rejection sampling))"
    )


def test_a_run_without_a_round_is_all_zeros() -> None:
    assert summary(COUPLED, DraftCounters()) == (
        "[Speculative acceptance] rule=sampler-match rounds=0 proposed=0 positions_tested=0 accepted=0 "
        "per_position_acceptance=0.0000 acceptance_rate=0.0000 mean_accepted_len=0.0000 proposals=coupled "
        "(sampler-match (a proposal stands if it is the target's own draw))"
    )


def test_every_rule_has_its_stable_name_and_an_explanation() -> None:
    lines = {rule: summary(Run(rule, Proposals.ONE_HOT), DraftCounters()) for rule in Rule}
    for rule, line in lines.items():
        assert f" rule={rule} " in line
        assert " proposals=one-hot (" in line
        assert line.endswith("))")
    assert len(set(lines.values())) == len(Rule)


def test_the_diagnostic_line_has_the_documents_two_forms_then_ours() -> None:
    line = diagnostic(COUPLED, averages(ClosedForms(0.7302, 0.5651, 0.7, 0.9)))
    assert line == (
        "[Speculative acceptance diagnostic] closed_form_sum_min=0.7302 closed_form_sum_prod=0.5651 "
        "closed_form_coupled=0.7000 (the measured per-position acceptance of this run belongs at coupled; "
        "sum_prod <= coupled <= sum_min always)"
    )


def test_only_the_argmax_rule_shows_what_the_drafter_gives_the_argmax() -> None:
    forms = averages(ClosedForms(0.3, 0.285, 0.3, 0.95))
    line = diagnostic(Run(Rule.ARGMAX, Proposals.COUPLED), forms)
    assert "closed_form_coupled=0.3000 closed_form_argmax=0.9500 (" in line
    assert "belongs at argmax" in line
    assert "closed_form_argmax" not in diagnostic(STOCHASTIC, forms)


def test_a_violated_order_is_reported_with_its_count() -> None:
    line = diagnostic(STOCHASTIC, averages(ClosedForms(0.5, 0.1, 0.3, 0), ClosedForms(0.5, 0.1, 0.6, 0)))
    assert "belongs at sum_min; ORDER VIOLATED at 1 of 2 positions" in line


def test_nothing_tested_is_zeros_there_too() -> None:
    line = diagnostic(COUPLED, Averages())
    assert "closed_form_sum_min=0.0000 closed_form_sum_prod=0.0000 closed_form_coupled=0.0000" in line
