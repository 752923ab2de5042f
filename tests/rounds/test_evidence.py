"""What is known of a drafter's proposals, by depth: from nothing, from others, from its own rounds."""

import pytest

from stoker.rounds.evidence import Acceptance


def test_acceptance_begins_at_its_prior_and_follows_the_evidence_by_depth() -> None:
    acceptance = Acceptance(prior=0.5)
    assert acceptance.reach(2) == pytest.approx([0.5, 0.25])
    for _ in range(200):
        acceptance.observe(tested=2, accepted=1)
    first, second, third = acceptance.reach(3)
    assert first > 0.95
    assert second < 0.1
    assert third < second


def test_a_request_begins_where_others_have_been_and_then_goes_its_own_way() -> None:
    general = Acceptance()
    for _ in range(40):
        general.observe(3, 2)
    own = Acceptance(general=general)
    assert own.reach(3) == pytest.approx(general.reach(3), abs=0.02)
    for _ in range(20):
        own.observe(1, 0)
    assert own.reach(1)[0] < 0.3
    assert Acceptance(general=general).reach(1)[0] > own.reach(1)[0], "what one learns, the next begins with in part"
    assert own.reach(0) == []


def test_plain_tokens_lead_a_request_back_to_what_others_have_seen() -> None:
    general = Acceptance.of_all()
    for _ in range(300):
        general.observe(2, 1)
    own = Acceptance(general=general)
    for _ in range(30):
        own.observe(1, 0)
    doubtful, others = own.reach(1)[0], general.reach(1)[0]
    assert doubtful < 0.3
    assert others > 0.6
    own.age(200)
    assert own.reach(1)[0] == pytest.approx(others, abs=0.1)
    known = general.reach(1)[0]
    general.age(1000)
    assert general.reach(1)[0] == known, "what is known of all requests does not get old by itself"


def test_what_is_known_of_all_requests_outlives_a_bad_answer() -> None:
    general = Acceptance.of_all()
    for _ in range(300):
        general.observe(1, 1)
    for _ in range(30):
        Acceptance(general=general).observe(1, 0)
    assert general.reach(1)[0] > 0.6
