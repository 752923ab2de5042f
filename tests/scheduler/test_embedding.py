"""Requests for embeddings through the scheduler, beside others."""

import asyncio

import pytest

from fakes import FakeEngine
from scheduler.test_scheduler import answer, collect, request, serving
from stoker.core.errors import ContextExceeded
from stoker.core.events import Embedded, Progress
from stoker.core.request import Pooling, Request
from stoker.scheduler.scheduler import Policy


def wanted(id: int, prompt: tuple[int, ...] = (10, 20, 30), slot: int = -1) -> Request:
    return Request(id, prompt, arrived=100.0, pooling=Pooling.MEAN, slot=slot)


async def test_an_embedding_is_the_whole_answer() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        events = await collect(scheduler.submit(wanted(1)))
        assert isinstance(events[0], Progress)
        assert events[-1] == Embedded(((10.0,), (20.0,), (30.0,)), 3)
        assert not engine.rows or scheduler.totals().busy == 0
    assert [work for plan in engine.plans for work in plan.step] == []
    assert scheduler.totals().prompt_tokens == 3
    assert scheduler.totals().predicted_tokens == 0


async def test_its_prompt_may_fill_the_slot_and_no_more() -> None:
    async with serving(FakeEngine(), context=8) as scheduler:
        assert isinstance((await collect(scheduler.submit(wanted(1, (1,) * 8))))[-1], Embedded)
        with pytest.raises(ContextExceeded):
            scheduler.submit(wanted(2, (1,) * 9))


async def test_one_token_and_a_long_prompt_are_embedded_too() -> None:
    async with serving(FakeEngine(), context=2000, policy=Policy(batch=64)) as scheduler:
        for prompt in ((5,), tuple(range(1000))):
            end = (await collect(scheduler.submit(wanted(prompt[0] + 1, prompt))))[-1]
            assert isinstance(end, Embedded)
            assert end.prompt_tokens == len(end.vectors) == len(prompt)


async def test_it_reads_all_of_its_prompt_whatever_the_slot_holds_and_leaves_it_for_an_answer() -> None:
    async with serving(FakeEngine(), slots=1) as scheduler:
        await answer(scheduler, request(1, prompt=(10, 20, 30)))
        events = await collect(scheduler.submit(wanted(2)))
        assert isinstance(events[0], Progress)
        assert events[0].cached == 0
        assert (await answer(scheduler, request(3, prompt=(10, 20, 30)))).cached_tokens == 2


async def test_embeddings_and_answers_share_the_slots() -> None:
    async with serving(FakeEngine(), slots=3) as scheduler:
        asked = [scheduler.submit(wanted(n) if n % 2 else request(n)) for n in range(10)]
        ends = [(await asyncio.gather(collect(stream)))[0][-1] for stream in asked]
    assert [isinstance(end, Embedded) for end in ends] == [bool(n % 2) for n in range(10)]


async def test_a_cancelled_embedding_frees_its_slot() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1, context=5000, policy=Policy(batch=16)) as scheduler:
        stream = scheduler.submit(wanted(1, tuple(range(4000))))
        while not engine.rows:
            await asyncio.sleep(0)
        scheduler.cancel(1)
        assert (await answer(scheduler, request(2))).tokens
    assert not engine.rows
    assert not [event for event in await collect(stream) if isinstance(event, Embedded)]
