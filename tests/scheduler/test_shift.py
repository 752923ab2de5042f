"""Context shift: a full slot gives up its oldest tokens, and a new row reads the others."""

import pytest

from fakes import FakeDrafter, FakeEngine
from scheduler.test_scheduler import answer, request, serving
from stoker.core.events import StopType
from stoker.core.request import Grammar, ThoughtLimit
from stoker.core.work import Join
from stoker.scheduler.scheduler import Policy

SHIFT = Policy(shift=True)
PROMPT = (10, 20, 30)


def joins(engine: FakeEngine) -> list[Join]:
    return [join for plan in engine.plans for join in plan.join]


@pytest.mark.parametrize("recurrent", [False, True])
async def test_an_answer_goes_on_beyond_a_full_slot_and_says_so(recurrent: bool) -> None:
    engine = FakeEngine()
    async with serving(engine, context=8, recurrent=recurrent, policy=SHIFT) as scheduler:
        end = await answer(scheduler, request(1, prompt=PROMPT, predict=12))
        assert scheduler.slots()[end.slot].content == end.tokens_in_slot
    assert len(end.tokens) == 12
    assert (end.truncated, end.stop) == (True, StopType.LIMIT)
    assert end.tokens_in_slot == 3 + 12 - end.dropped - 1 <= 8
    first, second, *_ = joins(engine)
    assert first.prompt == PROMPT
    assert second.prompt == (*PROMPT, *end.tokens[:5])[4:], "half of the eight tokens is gone"
    assert second.cached == 0
    assert second.sampling.seed != first.sampling.seed


async def test_the_first_tokens_are_spared_as_asked_and_so_many_dropped() -> None:
    engine = FakeEngine()
    async with serving(engine, context=8, policy=SHIFT) as scheduler:
        end = await answer(scheduler, request(1, prompt=PROMPT, predict=10, keep=2, discard=3))
    second = joins(engine)[1]
    whole = (*PROMPT, *end.tokens[:5])
    assert second.prompt == (*whole[:2], *whole[5:])
    assert second.cached == 2, "their columns stay"


async def test_of_a_slot_that_is_all_spared_four_tokens_can_still_go() -> None:
    engine = FakeEngine()
    async with serving(engine, context=8, policy=SHIFT) as scheduler:
        end = await answer(scheduler, request(1, prompt=tuple(range(1, 8)), predict=10, keep=-1))
    assert len(end.tokens) == 10
    assert all(join.prompt[:4] == (1, 2, 3, 4) for join in joins(engine))


async def test_a_drafted_row_stops_at_the_edge_and_shifts_there() -> None:
    engine = FakeEngine(drafter=FakeDrafter())
    async with serving(engine, context=9, policy=SHIFT) as scheduler:
        end = await answer(scheduler, request(1, prompt=PROMPT, predict=20))
    assert len(end.tokens) == 20
    assert all(len(join.prompt) < 9 for join in joins(engine))


async def test_without_the_policy_a_full_slot_ends_the_answer() -> None:
    async with serving(FakeEngine(), context=8) as scheduler:
        assert len((await answer(scheduler, request(1, prompt=PROMPT, predict=12))).tokens) == 5


async def test_an_answer_with_a_grammar_ends_there_too() -> None:
    async with serving(FakeEngine(), context=8, policy=SHIFT) as scheduler:
        grammar = Grammar('root ::= "x"')
        assert len((await answer(scheduler, request(1, prompt=PROMPT, predict=12, grammar=grammar))).tokens) == 5


async def test_forced_words_that_do_not_fit_shift_as_well() -> None:
    thought = ThoughtLimit(" 31", (" 99",), ending=(77, 78, 99), budget=3)
    engine = FakeEngine()
    async with serving(engine, context=8, policy=SHIFT) as scheduler:
        end = await answer(scheduler, request(1, prompt=PROMPT, predict=12, thought=thought))
    assert end.tokens[:7] == (31, 32, 33, 34, 77, 78, 99)
    assert len(end.tokens) == 12
    assert all(len(join.prompt) < 8 for join in joins(engine))


async def test_the_next_prompt_reuses_what_a_shifted_answer_left() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1, context=16, policy=SHIFT) as scheduler:
        first = await answer(scheduler, request(1, prompt=PROMPT, predict=20, keep=3))
        left = (*PROMPT, *first.tokens)[:3] + (*PROMPT, *first.tokens)[3 + first.dropped : -1]
        assert (await answer(scheduler, request(2, prompt=(*left, 1)))).cached_tokens == len(left)
