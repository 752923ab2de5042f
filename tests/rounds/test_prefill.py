"""Prompts read in one padded forward: what each slot then holds, and what a drafter is fed."""

import random
from collections.abc import Callable

import mlx.core as mx
import pytest

from models import tiny
from rounds.oracle import Oracle, OracleSession
from stoker.core.request import Sampling
from stoker.core.work import Join, PrefillWork
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.base import Features, Needs
from stoker.rounds.prefill import prefill
from stoker.rounds.row import Drafting, Row
from stoker.rounds.speculator import Speculation, Speculator

pytestmark = pytest.mark.mlx

PROMPTS = ((1, 2, 3, 4, 5, 6), (7, 8, 9))


class Hearing(OracleSession):
    """Remembers what was read to it."""

    def read(self, stop: int, features: Features) -> None:
        self.emitted.append(stop)
        self.accepted += [stream.shape[0] for stream in features.values()]


class Reader(Oracle):
    @property
    def needs(self) -> Needs:
        return Needs(capture=(1,))


def rows(target: Target, session: Callable[[], OracleSession | None] = lambda: None) -> list[Row]:
    sampler = Sampler(target.vocab, [])
    joins = [Join(n, n, prompt, 0, Sampling()) for n, prompt in enumerate(PROMPTS)]
    return [
        Row.open(join, sampler.open(join.sampling, join.prompt), Drafting(session(), Reader({}).kind)) for join in joins
    ]


def logits(target: Target, slot: int, token: int) -> mx.array:
    with target.verify([slot], mx.array([[token]])) as seen:
        return seen.logits[0, -1]


def test_rows_of_unequal_parts_hold_what_each_would_hold_alone() -> None:
    target = Target(tiny.llama(), 2, 64)
    both = rows(target)
    prefill(target, both, [PrefillWork(0, 5), PrefillWork(1, 2)], Speculator())
    assert target.lengths == (5, 2)
    assert [row.processed for row in both] == [5, 2]
    for slot, prompt in enumerate(PROMPTS):
        whole = tiny.llama()(mx.array([prompt]))[0, -1]
        assert mx.allclose(logits(target, slot, prompt[-1]), whole, atol=1e-4)


def test_a_prompt_may_be_read_in_parts() -> None:
    target = Target(tiny.lfm2(), 2, 64)
    first, _ = rows(target)
    for stop in (2, 3, 5):
        prefill(target, [first], [PrefillWork(0, stop)], Speculator())
    whole = tiny.lfm2()(mx.array([PROMPTS[0]]))[0, -1]
    assert mx.allclose(logits(target, 0, 6), whole, atol=1e-4)


def test_drafters_read_along_and_get_the_columns_just_run() -> None:
    target = Target(tiny.llama(), 2, 64)
    drafter = Reader({})
    both = rows(target, lambda: Hearing((), (), random.Random(1), 3))
    speculator = Speculator(Speculation({drafter.kind: drafter}, drafter.kind))
    prefill(target, both, [PrefillWork(0, 5), PrefillWork(1, 2)], speculator)
    heard = [row.drafting.session for row in both]
    assert [(it.emitted, it.accepted) for it in heard if isinstance(it, Hearing)] == [([5], [5]), ([2], [2])]


def test_a_fault_in_the_forward_changes_no_row() -> None:
    target = Target(tiny.llama(), 2, 4)
    both = rows(target)
    with pytest.raises(ValueError, match="context"):
        prefill(target, both, [PrefillWork(0, 5), PrefillWork(1, 2)], Speculator())
    assert target.lengths == (0, 0)
    assert [row.processed for row in both] == [0, 0]
