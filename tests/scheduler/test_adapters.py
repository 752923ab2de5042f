"""What was made under other scales of the adapters serves nobody."""

from fakes import FakeEngine
from scheduler.test_kept import COLUMN, A, B, ask, kept
from scheduler.test_scheduler import answer, request, serving
from stoker.core.work import Keep, SlotAction
from stoker.scheduler.scheduler import Policy
from stoker.scheduler.slots import Place

ON, HALF = (1.0, 0.0), (0.5, 0.0)


async def test_rows_get_their_own_scales_and_a_slot_serves_only_the_same_ones() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1) as scheduler:
        cached: list[int] = []
        for n, scales in enumerate([(), ON, ON, HALF, (), ()]):
            cached.append((await answer(scheduler, request(n + 1, adapters=scales))).cached_tokens)
            assert engine.scales == {0: scales}
    assert cached == [0, 0, 2, 0, 0, 2]


async def test_a_slot_with_the_same_scales_is_chosen_and_copied_from() -> None:
    async with serving(FakeEngine(), slots=3, policy=Policy(idle_slots=True)) as scheduler:
        first = await answer(scheduler, request(1, adapters=ON))
        other = await answer(scheduler, request(2))
        assert first.slot != other.slot
        again = await answer(scheduler, request(3, adapters=ON))
        assert (again.slot, again.cached_tokens) == (first.slot, 2)
        copied = await answer(scheduler, request(4, adapters=ON, slot=other.slot))
        assert (copied.slot, copied.cached_tokens) == (other.slot, 2)
        assert (await answer(scheduler, request(5, adapters=HALF))).cached_tokens == 0


def test_a_kept_content_serves_its_own_scales_only_and_stands_beside_the_same_tokens_under_others() -> None:
    from dataclasses import replace

    cache = kept()
    cache.improve(Place(0, 0, content=A, adapters=ON), ask(*A))
    assert cache.orders()[0] == (Keep(0, 1),), "the same tokens without the adapter are no replacement"
    cache.improve(Place(0, 0, content=A), ask(*B))
    assert cache.orders()[0] == (Keep(0, 2),)
    assert cache.view.size == 8 * COLUMN
    assert cache.improve(Place(1, 0), replace(ask(*A), adapters=ON)).kept == 1
    assert cache.improve(Place(1, 0), ask(*A)).kept == 2
    assert cache.improve(Place(1, 0), replace(ask(*A), adapters=HALF)).kept == -1


async def test_a_saved_slot_remembers_its_scales_and_a_restored_one_has_those_that_were_asked_for() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1) as scheduler:
        await answer(scheduler, request(1, adapters=ON))
        await scheduler.act(0, SlotAction.SAVE, "f", HALF)
        await scheduler.act(0, SlotAction.RESTORE, "f", ON)
        assert (await answer(scheduler, request(2, adapters=ON))).cached_tokens == 2
        await scheduler.act(0, SlotAction.ERASE)
        assert (await answer(scheduler, request(3, adapters=ON))).cached_tokens == 0
    assert [work.adapters for plan in engine.plans for work in plan.slots] == [ON, ON, ()]
