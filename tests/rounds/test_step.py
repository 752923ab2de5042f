"""One round on a table of logits: columns, verdicts, what a row keeps, and rounds behind rounds."""

from collections.abc import Sequence

import mlx.core as mx
import pytest

from rounds.table import TableTarget
from stoker.core.counters import RoundCount
from stoker.core.request import Sampling
from stoker.core.work import Join
from stoker.models.sampling import Sampler
from stoker.rounds.base import NOTHING, Proposal
from stoker.rounds.row import Drafting, Row
from stoker.rounds.step import Round, Turn

pytestmark = pytest.mark.mlx

VOCAB = 12


def counting() -> mx.array:
    """A model that counts up: after n comes n + 1."""
    return mx.roll(mx.eye(VOCAB) * 9.0, 1, 1)


class Table:
    def __init__(self, *anchors: int, probs: int = 0) -> None:
        self.target = TableTarget(counting(), len(anchors))
        self.sampler = Sampler(VOCAB, [])
        joins = [Join(n, n, (0, anchor), 0, Sampling(temperature=0), probs) for n, anchor in enumerate(anchors)]
        self.rows = [
            Row.open(join, self.sampler.open(join.sampling, join.prompt), Drafting(off=None)) for join in joins
        ]

    def turns(self, *proposals: Sequence[int] | mx.array) -> list[Turn]:
        made = [Proposal(it) if len(it) else NOTHING for it in proposals]
        return [Turn(row, row.position, row.anchor, it) for row, it in zip(self.rows, made, strict=True)]

    def round(self, *proposals: Sequence[int] | mx.array) -> Round:
        return Round(self.target, self.sampler, self.turns(*proposals))


def test_a_plain_row_emits_one_token_and_counts_no_round() -> None:
    it = Table(3).round(())
    assert it.plain
    emitted = it.read(())[0]
    assert (emitted.tokens, emitted.count) == ((4,), None)


def test_a_round_is_as_wide_as_its_longest_proposal_and_each_row_is_judged_by_its_own() -> None:
    it = Table(1, 5, 8).round((2, 3, 7), (6,), ())
    assert (it.width, it.plain, it.ids) == (4, False, (0, 1, 2))
    emitted = it.read(())
    assert [emitted[n].tokens for n in range(3)] == [(2, 3, 4), (6, 7), (9,)]
    assert [emitted[n].count for n in range(3)] == [RoundCount(3, 3, 2), RoundCount(1, 1, 1), None]


def test_proposals_on_the_device_are_judged_like_those_of_the_host() -> None:
    emitted = Table(1, 5).round(mx.array([2, 9], mx.int32), (6,)).read(())
    assert [emitted[n].tokens for n in range(2)] == [(2, 3), (6, 7)]


def test_an_end_token_inside_a_round_cuts_it_there() -> None:
    emitted = Table(1).round((2, 3, 4)).read({3})[0]
    assert (emitted.tokens, emitted.count) == ((2, 3), RoundCount(3, 2, 2))


def test_a_row_keeps_the_columns_that_it_is_told_to_and_others_none() -> None:
    table = Table(1, 5)
    it = table.round((2, 3), (6,))
    it.read(())
    it.settle({0: 3})
    assert table.target.lengths == (3, 0)


def test_a_round_behind_a_plain_one_takes_its_unread_tokens_as_anchors() -> None:
    table = Table(1, 5)
    first = table.round((), ())
    first.settle({0: 1, 1: 1})
    turns = [Turn(row, row.position + 1, None) for row in reversed(table.rows)]
    second = Round(table.target, table.sampler, turns, behind=first)
    assert {id: it.tokens for id, it in first.read(()).items()} == {0: (2,), 1: (6,)}
    assert {id: it.tokens for id, it in second.read(()).items()} == {1: (7,), 0: (3,)}


def test_the_probabilities_of_what_was_emitted_come_with_it() -> None:
    emitted = Table(1, probs=2).round((2, 9)).read(())[0]
    assert [one.top[0][0] for one in emitted.probs] == [2, 3]
    assert all(one.logprob == one.top[0][1] <= 0 for one in emitted.probs)
