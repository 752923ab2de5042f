"""A row as it begins, and why it does not draft: the nearest reason counts."""

import random
from dataclasses import dataclass, replace

import pytest

from rounds.oracle import OracleSession
from stoker.core.counters import DraftOff
from stoker.core.request import Sampling
from stoker.core.work import Join
from stoker.models.sampling import Sampler
from stoker.rounds.row import Drafting, Row

pytestmark = pytest.mark.mlx

JOIN = Join(7, 2, (5, 6, 7), 1, Sampling(seed=3))


@dataclass
class Paused(OracleSession):
    @property
    def off(self) -> DraftOff | None:
        return DraftOff.DOES_NOT_PAY


def opened(join: Join) -> Row:
    return Row.open(join, Sampler(16, []).open(join.sampling, join.prompt), Drafting())


def test_a_row_begins_with_its_last_prompt_token_as_the_anchor() -> None:
    row = opened(JOIN)
    assert (row.id, row.slot, row.seed) == (7, 2, 3)
    assert (row.anchor, row.position, row.processed) == (7, 2, 1)
    assert not row.ended


@pytest.mark.parametrize(
    ("sampling", "feedback"), [(Sampling(), False), (Sampling(repeat_penalty=1.2), True), (Sampling(mirostat=2), True)]
)
def test_a_row_whose_draws_need_earlier_tokens_says_so(sampling: Sampling, feedback: bool) -> None:
    assert opened(replace(JOIN, sampling=sampling)).feedback is feedback


def test_without_a_session_the_reason_is_the_one_it_was_given() -> None:
    assert Drafting().reason is DraftOff.NO_DRAFTER
    assert Drafting(off=DraftOff.FAULT).reason is DraftOff.FAULT
    assert not Drafting().wants_round


def test_the_budgets_word_counts_before_the_grammars_and_that_before_the_drafters_own() -> None:
    session = Paused((), (), random.Random(1), 3)
    assert Drafting(session).wants_round
    assert Drafting(session).reason is DraftOff.DOES_NOT_PAY
    assert Drafting(session, forbidden=True).reason is DraftOff.GRAMMAR
    assert Drafting(session, forbidden=True, parked=DraftOff.BATCH).reason is DraftOff.BATCH
    assert Drafting(OracleSession((), (), random.Random(1), 3), off=None).reason is None
