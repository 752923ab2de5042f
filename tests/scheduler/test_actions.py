"""Saving, restoring and erasing slots through the scheduler."""

import asyncio

import pytest

from fakes import FakeEngine
from scheduler.test_scheduler import answer, collect, request, serving
from stoker.core.errors import InvalidRequest, ServerFault, Unavailable
from stoker.core.work import Outcome, Plan, SlotAction


async def test_a_saved_slot_can_be_restored_into_another_and_continued() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        first = await answer(scheduler, request(1, prompt=(1, 2, 3, 4), slot=1))
        held = 4 + len(first.tokens) - 1
        saved = await scheduler.act(1, SlotAction.SAVE, "f")
        assert (len(saved.tokens), saved.size) == (held, 8 * held)
        restored = await scheduler.act(0, SlotAction.RESTORE, "f")
        assert restored.tokens == saved.tokens
        again = await answer(scheduler, request(2, prompt=(1, 2, 3, 4), slot=0))
    assert (again.slot, again.cached_tokens) == (0, 3)


async def test_an_erased_slot_serves_nothing() -> None:
    async with serving(FakeEngine()) as scheduler:
        await answer(scheduler, request(1, prompt=(1, 2, 3, 4), slot=1))
        assert len((await scheduler.act(3, SlotAction.ERASE)).tokens) == 7, "slots count modulo"
        assert len((await scheduler.act(1, SlotAction.ERASE)).tokens) == 0
        assert (await answer(scheduler, request(2, prompt=(1, 2, 3, 4), slot=1))).cached_tokens == 0


async def test_a_failed_restore_leaves_the_slot_as_it_was() -> None:
    async with serving(FakeEngine()) as scheduler:
        await answer(scheduler, request(1, prompt=(1, 2, 3, 4), slot=1))
        with pytest.raises(InvalidRequest, match="Unable to restore"):
            await scheduler.act(1, SlotAction.RESTORE, "none")
        assert (await answer(scheduler, request(2, prompt=(1, 2, 3, 4), slot=1))).cached_tokens == 3


async def test_a_busy_slot_is_waited_for_and_comes_before_the_next_request() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1) as scheduler:
        running = scheduler.submit(request(1, prompt=(1, 2, 3), predict=5))
        erased = asyncio.create_task(scheduler.act(0, SlotAction.ERASE))
        await asyncio.sleep(0)
        waiting = scheduler.submit(request(2, prompt=(1, 2, 3), predict=1))
        await collect(running)
        assert len((await erased).tokens) == 7
        end = (await collect(waiting))[-1]
    assert end.cached_tokens == 0  # type: ignore[union-attr]


async def test_one_who_no_longer_waits_is_forgotten() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1) as scheduler:
        running = scheduler.submit(request(1, prompt=(1, 2, 3), predict=5))
        erasing = asyncio.create_task(scheduler.act(0, SlotAction.ERASE))
        await asyncio.sleep(0)
        erasing.cancel()
        await collect(running)
        assert (await answer(scheduler, request(2, prompt=(1, 2, 3)))).cached_tokens == 2
    assert not any(plan.slots for plan in engine.plans)


@pytest.mark.parametrize("action", [SlotAction.SAVE, SlotAction.RESTORE])
async def test_one_who_goes_while_it_is_done_hears_nothing_and_the_slot_is_free_again(action: SlotAction) -> None:
    class Leaving(FakeEngine):
        def tick(self, plan: Plan) -> list[Outcome]:
            if plan.slots:
                acting.cancel()
            return super().tick(plan)

    engine = Leaving()
    async with serving(engine, slots=1) as scheduler:
        await answer(scheduler, request(1, prompt=(1, 2, 3)))
        acting = asyncio.create_task(scheduler.act(0, action, "f"))
        await asyncio.wait([acting])
        assert (await answer(scheduler, request(2, prompt=(1, 2, 3)))).cached_tokens == 2


async def test_an_engine_that_ends_tells_those_who_wait() -> None:
    class Broken(FakeEngine):
        def tick(self, plan: Plan) -> list[Outcome]:
            raise RuntimeError("gone")

    async def ask() -> None:
        async with serving(Broken()) as scheduler:
            with pytest.raises(ServerFault, match="the engine has stopped"):
                await scheduler.act(0, SlotAction.ERASE)
            with pytest.raises(Unavailable):
                await scheduler.act(0, SlotAction.ERASE)

    with pytest.raises(RuntimeError, match="gone"):
        await ask()


async def test_a_restored_slot_is_not_the_next_to_be_overwritten() -> None:
    engine = FakeEngine(files={"f": (1, 2, 3, 4)})
    async with serving(engine, slots=2) as scheduler:
        await scheduler.act(1, SlotAction.RESTORE, "f")
        assert (await answer(scheduler, request(1, prompt=(50, 51)))).slot == 0
