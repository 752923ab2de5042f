"""Prompt lookup's session, driven by verdicts: no model, no forward."""

import pytest

from stoker.acceptance.governor import Gated, Graded
from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Sampling
from stoker.rounds.base import Ask, Opening
from stoker.rounds.lookup import Lookup, LookupSession
from stoker.rounds.ngrams import Sizes

LOOP = (1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3)


def session(drafter: Lookup, prompt: tuple[int, ...] = LOOP, most: int = 7) -> LookupSession:
    return drafter.open(Opening(1, 0, prompt, 0, Sampling(), most))


GRADED = Lookup(Sizes(), Graded)
GATED = Lookup(Sizes(), Gated)


def test_it_proposes_what_followed_before_as_a_certain_draft() -> None:
    row = session(GRADED)
    assert row.wants_round
    (proposal,) = GRADED.propose([Ask(row, 3, 11, 7)])
    assert proposal.tokens == (4, 5, 6, 7, 8, 9, 1)
    assert proposal.one_hot
    assert proposal.q is None
    assert GRADED.kind is Kind.PROMPT_LOOKUP


@pytest.mark.parametrize(("limit", "most", "count"), [(2, 7, 2), (7, 3, 3), (0, 7, 0)])
def test_a_proposal_keeps_to_the_rows_limit_and_the_requests_own(limit: int, most: int, count: int) -> None:
    assert len(session(GRADED, most=most).propose(limit)) == count


def test_it_wants_no_round_where_nothing_repeats() -> None:
    row = session(GRADED, (1, 2, 3, 4))
    assert not row.wants_round
    row.observe(Verdict((1, 2), 0, 0), 0, {})
    assert row.wants_round
    assert row.propose(7).tokens == (3, 4, 1, 2)


def test_a_pausing_governor_says_that_it_does_not_pay_and_shadows_bring_it_back() -> None:
    row = session(GATED)
    for _ in range(2):
        row.observe(Verdict((99,), 0, 1), 2, {})
        row.observe(Verdict((1, 2, 3), 0, 0), 0, {})
    assert row.off is DraftOff.DOES_NOT_PAY
    assert not row.wants_round
    for token in (4, 5, 6, 7, 8, 9, 1, 2):  # the first one is a miss: 99 followed last time
        assert row.off is not None
        row.observe(Verdict((token,), 0, 0), 0, {})
    assert row.off is None


def test_a_session_of_another_drafter_is_refused() -> None:
    class Other:
        pass

    with pytest.raises(TypeError, match="Other"):
        GRADED.propose([Ask(Other(), 1, 1, 1)])  # type: ignore[arg-type]
