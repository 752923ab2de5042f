"""Sessions of drafters with a network want every round that they may have."""

from stoker.rounds.evidence import Acceptance
from stoker.rounds.session import NetworkSession


def session(most: int) -> NetworkSession:
    made = type("Made", (NetworkSession,), {})()
    made.most, made.acceptance = most, Acceptance(prior=0.5)
    return made


def test_it_wants_rounds_unless_it_may_propose_nothing() -> None:
    assert session(2).wants_round
    assert not session(0).wants_round
    assert session(2).off is None


def test_it_promises_what_it_has_learned_for_no_more_than_it_may_propose() -> None:
    assert session(2).reach(9) == [0.5, 0.25]
    assert session(2).reach(1) == [0.5]
