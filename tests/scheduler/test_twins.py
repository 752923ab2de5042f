"""Several continuations of one prompt: it is read once."""

import pytest

from fakes import FakeEngine
from scheduler.test_scheduler import answer, collect, request, serving
from stoker.core.events import Finished
from stoker.scheduler.scheduler import Policy, Scheduler

PROMPT = tuple(range(10, 30))


async def continuations(scheduler: Scheduler, n: int, predict: int = 4) -> list[Finished]:
    streams = [scheduler.submit(request(1, prompt=PROMPT, predict=predict))]
    streams += [scheduler.submit(request(id, prompt=PROMPT, predict=predict, twin=1)) for id in range(2, n + 1)]
    ends = [(await collect(stream))[-1] for stream in streams]
    assert all(isinstance(end, Finished) for end in ends)
    return ends  # type: ignore[return-value]


@pytest.mark.parametrize("recurrent", [False, True])
async def test_the_prompt_is_read_once_and_its_slot_copied_before_the_first_round(recurrent: bool) -> None:
    engine = FakeEngine()
    async with serving(engine, slots=3, recurrent=recurrent) as scheduler:
        ends = await continuations(scheduler, 3)
    assert [end.cached_tokens for end in ends] == [0, len(PROMPT) - 1, len(PROMPT) - 1]
    assert [work.id for plan in engine.plans for work in plan.prefill] == [1]
    copies = [(join.id, join.source) for plan in engine.plans for join in plan.join]
    assert copies == [(1, -1), (2, ends[0].slot), (3, ends[0].slot)]
    first = next(n for n, plan in enumerate(engine.plans) if plan.step)
    assert [work.id for work in engine.plans[first].step] == [1, 2, 3]


async def test_a_prompt_that_its_slot_holds_already_is_copied_in_the_same_plan() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=2) as scheduler:
        await answer(scheduler, request(9, prompt=PROMPT, slot=0))
        ends = await continuations(scheduler, 2)
    assert [end.cached_tokens for end in ends] == [len(PROMPT) - 1] * 2
    assert [work.id for plan in engine.plans for work in plan.prefill] == [9]


async def test_a_twin_that_finds_no_slot_in_time_adopts_what_it_can() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=2) as scheduler:
        other = scheduler.submit(request(9, prompt=(1, 2), predict=9))
        ends = await continuations(scheduler, 2, predict=20)
        await collect(other)
    assert [end.cached_tokens for end in ends] == [0, len(PROMPT) - 1]
    assert [end.tokens for end in ends] == [ends[0].tokens] * 2


async def test_a_twin_of_one_that_is_gone_is_like_any_request() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=2) as scheduler:
        first = scheduler.submit(request(1, prompt=PROMPT))
        second = scheduler.submit(request(2, prompt=PROMPT, twin=1))
        scheduler.cancel(1)
        assert await collect(first) == []
        end = (await collect(second))[-1]
    assert isinstance(end, Finished)
    assert end.cached_tokens == 0


async def test_one_row_at_a_time_reads_the_prompt_once_too() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=2, policy=Policy(continuous=False, idle_slots=True)) as scheduler:
        ends = await continuations(scheduler, 2)
    assert [end.cached_tokens for end in ends] == [0, len(PROMPT) - 1]
    assert max(len(plan.step) for plan in engine.plans) == 1
