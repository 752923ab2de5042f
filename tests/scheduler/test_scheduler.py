import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fakes import FakeClock, FakeEngine, Inline
from stoker.core.errors import ContextExceeded, InvalidRequest, ServerFault, Unavailable
from stoker.core.events import Event, Failed, Finished, Progress, StopType, Tokens
from stoker.core.request import Limits, Request
from stoker.core.work import Outcome, Plan, Traits
from stoker.scheduler.device import Device
from stoker.scheduler.scheduler import Policy, Scheduler, Vocabulary
from stoker.scheduler.stream import Stream

END = 0


def piece(token: int, special: bool) -> bytes:
    return b"<end>" * special if token == END else f" {token}".encode()


def request(id: int, prompt: tuple[int, ...] = (10, 20, 30), predict: int = 4, **more: object) -> Request:
    limits = Limits(predict=predict, **{key: more.pop(key) for key in ("stop",) if key in more})  # type: ignore[arg-type]
    return Request(id, prompt, arrived=100.0, limits=limits, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(
    engine: FakeEngine, *, slots: int = 2, context: int = 64, recurrent: bool = False, policy: Policy | None = None
) -> AsyncIterator[Scheduler]:
    traits = Traits(slots, context, recurrent)
    scheduler = Scheduler(engine, Inline(engine.clock), traits, Vocabulary(piece, frozenset({END})), policy)
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        await scheduler.stop()
        await asyncio.wait_for(task, 5)


async def collect(stream: Stream) -> list[Event]:
    return [event async for event in stream]


async def answer(scheduler: Scheduler, wanted: Request) -> Finished:
    last = (await collect(scheduler.submit(wanted)))[-1]
    assert isinstance(last, Finished)
    return last


async def test_a_request_streams_progress_then_tokens_then_its_end() -> None:
    async with serving(FakeEngine()) as scheduler:
        events = await collect(scheduler.submit(request(1)))
    assert isinstance(events[0], Progress)
    assert events[0].processed == 0
    assert [type(event) for event in events[1:-1]].count(Tokens) >= 1
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.tokens == (31, 32, 33, 34)
    assert finished.text == " 31 32 33 34"
    assert finished.stop is StopType.LIMIT
    assert finished.tokens_in_slot == 6


async def test_an_end_token_ends_the_answer_and_is_counted() -> None:
    engine = FakeEngine(model=lambda prompt, n: END if n == 2 else 40 + n)
    async with serving(engine) as scheduler:
        finished = await answer(scheduler, request(1, predict=-1))
    assert finished.tokens == (40, 41, END)
    assert finished.text == " 40 41"
    assert finished.stop is StopType.EOS


async def test_a_full_context_ends_the_answer_as_truncated() -> None:
    async with serving(FakeEngine(), context=8) as scheduler:
        finished = await answer(scheduler, request(1, predict=-1))
    assert len(finished.tokens) == 5
    assert finished.truncated
    assert finished.stop is StopType.LIMIT


async def test_a_prompt_that_fills_the_context_is_refused_with_both_numbers() -> None:
    async with serving(FakeEngine(), context=3) as scheduler:
        with pytest.raises(ContextExceeded) as refused:
            scheduler.submit(request(1))
        assert (refused.value.n_prompt_tokens, refused.value.n_ctx) == (3, 3)


async def test_an_empty_prompt_is_answered_without_the_engine() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        finished = await answer(scheduler, request(1, prompt=()))
    assert finished.stop is StopType.NONE
    assert finished.tokens_in_slot == 0
    assert engine.plans == []


async def test_an_id_in_use_is_refused() -> None:
    async with serving(FakeEngine()) as scheduler:
        scheduler.submit(request(1))
        with pytest.raises(InvalidRequest):
            scheduler.submit(request(1))


async def test_more_requests_than_slots_all_finish_in_order_of_arrival() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=2) as scheduler:
        streams = [scheduler.submit(request(n, prompt=(n * 10, n * 10 + 1))) for n in range(1, 8)]
        ends = [(await collect(stream))[-1] for stream in streams]
    assert all(isinstance(end, Finished) for end in ends)
    joined = [join.id for plan in engine.plans for join in plan.join]
    assert joined == list(range(1, 8))
    assert max(len(plan.step) for plan in engine.plans) == 2


async def test_a_second_prompt_reuses_the_leading_part_that_its_slot_holds() -> None:
    async with serving(FakeEngine()) as scheduler:
        first = await answer(scheduler, request(1, prompt=(1, 2, 3, 4)))
        again = await answer(scheduler, request(2, prompt=(1, 2, 3, 4)))
        longer = await answer(scheduler, request(3, prompt=(1, 2, 3, 4, *first.tokens, 9)))
        cold = await answer(scheduler, request(4, prompt=(1, 2, 3, 4), cache_prompt=False))
    assert first.cached_tokens == 0
    assert again.cached_tokens == 3
    assert again.timings.prompt == 1
    assert longer.cached_tokens == 7
    assert cold.cached_tokens == 0
    assert again.slot == longer.slot == first.slot


async def test_a_recurrent_slot_is_reused_only_as_a_whole() -> None:
    async with serving(FakeEngine(), recurrent=True) as scheduler:
        first = await answer(scheduler, request(1, prompt=(1, 2, 3, 4)))
        again = await answer(scheduler, request(2, prompt=(1, 2, 3, 4)))
        longer = await answer(scheduler, request(3, prompt=(1, 2, 3, 4, *again.tokens, 9)))
    assert again.cached_tokens == 0
    assert longer.cached_tokens == 7
    assert first.tokens == again.tokens


async def test_a_stop_string_across_tokens_never_shows() -> None:
    async with serving(FakeEngine()) as scheduler:
        events = await collect(scheduler.submit(request(1, predict=20, stop=("2 33",))))
    shown = "".join(piece.text for event in events if isinstance(event, Tokens) for piece in event.pieces)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert shown == finished.text == " 31 3"
    assert finished.stop is StopType.WORD
    assert finished.stopping_word == "2 33"
    assert finished.tokens == (31, 32, 33)


async def test_a_cancelled_stream_frees_its_slot_within_two_ticks_and_disturbs_nobody() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        going = scheduler.submit(request(1, predict=30, prompt=(1, 2)))
        doomed = scheduler.submit(request(2, predict=30, prompt=(500, 501)))
        async for event in doomed:
            if isinstance(event, Tokens):
                break
        ticks = len(engine.plans)
        scheduler.cancel(2)
        scheduler.cancel(2)
        while any(slot.busy and slot.task == 2 for slot in scheduler.slots()):
            await asyncio.sleep(0)
        assert len(engine.plans) <= ticks + 2
        last = (await collect(going))[-1]
    assert isinstance(last, Finished)
    assert last.tokens == tuple(range(3, 33))


async def test_a_queued_request_that_is_cancelled_never_runs() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1) as scheduler:
        first = scheduler.submit(request(1, predict=10))
        queued = scheduler.submit(request(2))
        scheduler.cancel(2)
        await collect(first)
        assert await collect(queued) == []
        third = await answer(scheduler, request(3))
    assert third.tokens
    assert {join.id for plan in engine.plans for join in plan.join} == {1, 3}


async def test_cancelling_an_unknown_or_finished_request_does_nothing() -> None:
    async with serving(FakeEngine()) as scheduler:
        scheduler.cancel(99)
        await answer(scheduler, request(1))
        scheduler.cancel(1)
        assert (await answer(scheduler, request(2))).tokens


async def test_a_fault_ends_one_request_and_not_its_neighbour() -> None:
    engine = FakeEngine(faults={2: RuntimeError("boom")})
    async with serving(engine) as scheduler:
        healthy = scheduler.submit(request(1, prompt=(1, 2)))
        broken = scheduler.submit(request(2, prompt=(7, 8)))
        end = (await collect(broken))[-1]
        assert isinstance(end, Failed)
        assert isinstance(end.error, ServerFault)
        assert "boom" in end.error.message
        assert isinstance((await collect(healthy))[-1], Finished)
        assert (await answer(scheduler, request(3, prompt=(7, 8)))).cached_tokens == 0


async def test_a_fault_that_is_already_a_server_error_keeps_its_kind() -> None:
    engine = FakeEngine(faults={1: Unavailable("later")})
    async with serving(engine) as scheduler:
        end = (await collect(scheduler.submit(request(1))))[-1]
    assert isinstance(end, Failed)
    assert isinstance(end.error, Unavailable)


class DeadEngine(FakeEngine):
    def tick(self, plan: Plan) -> list[Outcome]:
        raise MemoryError("device lost")


async def test_a_lost_device_tells_every_stream_and_every_latecomer() -> None:
    traits = Traits(1, 64)
    scheduler = Scheduler(DeadEngine(), Inline(FakeClock()), traits, Vocabulary(piece, frozenset({END})))
    task = asyncio.create_task(scheduler.run())
    streams = [scheduler.submit(request(1)), scheduler.submit(request(2))]
    ends = [(await collect(stream))[-1] for stream in streams]
    assert all(isinstance(end, Failed) for end in ends)
    assert not scheduler.healthy
    with pytest.raises(Unavailable):
        scheduler.submit(request(3))
    with pytest.raises(MemoryError):
        await task


async def test_a_full_queue_refuses_with_a_time_to_come_back() -> None:
    async with serving(FakeEngine(), slots=1, policy=Policy(max_queue=2)) as scheduler:
        streams = [scheduler.submit(request(n)) for n in range(3)]
        with pytest.raises(Unavailable) as refused:
            scheduler.submit(request(9))
        assert refused.value.retry_after == 1
        for stream in streams:
            await collect(stream)
        assert (await answer(scheduler, request(10))).tokens


async def test_without_continuous_batching_one_request_runs_at_a_time() -> None:
    engine = FakeEngine()
    async with serving(engine, policy=Policy(continuous=False)) as scheduler:
        for stream in [scheduler.submit(request(n)) for n in range(3)]:
            await collect(stream)
    assert max(len(plan.step) for plan in engine.plans) == 1


async def test_a_request_that_waits_for_its_slot_lets_others_pass() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        first = scheduler.submit(request(1, slot=0, predict=20))
        wishing = scheduler.submit(request(2, slot=0))
        other = scheduler.submit(request(3))
        await collect(other)
        assert [slot.task for slot in scheduler.slots() if slot.busy] == [1]
        await collect(first)
        end = (await collect(wishing))[-1]
    assert isinstance(end, Finished)
    assert end.slot == 0


async def test_idle_runs_no_tick() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        await answer(scheduler, request(1))
        await asyncio.sleep(0.01)
        ticks = len(engine.plans)
        await asyncio.sleep(0.02)
        assert len(engine.plans) == ticks


async def test_the_wait_for_a_slot_stands_in_prompt_ms_only() -> None:
    engine = FakeEngine(step_seconds=0.1)
    async with serving(engine, slots=1) as scheduler:
        first = scheduler.submit(request(1, predict=4, prompt=(5,)))
        second = scheduler.submit(request(2, predict=3, prompt=(6,)))
        await collect(first)
        end = (await collect(second))[-1]
    assert isinstance(end, Finished)
    assert end.timings.prompt_ms >= 400
    assert end.timings.predicted_ms == pytest.approx(200, abs=1)
    assert end.timings.predicted_per_second == pytest.approx(10, rel=0.01)


async def test_decoding_rows_never_wait_longer_than_a_chunk_and_a_tick() -> None:
    engine = FakeEngine(step_seconds=0.05, token_seconds=0.005)
    async with serving(engine, context=4096) as scheduler:
        streaming = scheduler.submit(request(1, predict=400, prompt=(1, 2)))
        long = scheduler.submit(request(2, predict=1, prompt=tuple(range(1, 2001))))
        await asyncio.gather(collect(streaming), collect(long))
    stepped = [n for n, plan in enumerate(engine.plans) if any(work.id == 1 for work in plan.step)]
    assert stepped == list(range(stepped[0], stepped[-1] + 1)), "the stream moves in every tick"
    reading = [n for n, plan in enumerate(engine.plans) if any(work.id == 2 for work in plan.prefill)]
    assert all(later - sooner >= 5 for sooner, later in itertools.pairwise(reading))


async def test_metrics_add_up_over_requests_cancelled_ones_included() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        ends = [await answer(scheduler, request(n, prompt=(n, n + 1, n + 2))) for n in range(3)]
        doomed = scheduler.submit(request(9, predict=50, prompt=(90, 91)))
        async for event in doomed:
            if isinstance(event, Tokens):
                break
        scheduler.cancel(9)
        while scheduler.totals().busy:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)  # the tick that only releases the slot
        totals = scheduler.totals()
    assert totals.prompt_tokens == sum(end.timings.prompt for end in ends) + 2
    assert totals.predicted_tokens > sum(end.timings.predicted for end in ends)
    assert totals.cached_tokens == sum(end.cached_tokens for end in ends)
    assert totals.ticks == len(engine.plans)
    assert totals.decodes == sum(bool(plan.step) for plan in engine.plans)


async def test_slots_show_the_running_task_and_what_the_last_one_left() -> None:
    async with serving(FakeEngine()) as scheduler:
        assert [slot.task for slot in scheduler.slots()] == [None, None]
        stream = scheduler.submit(request(1, predict=5, report={"seed": 7}))
        async for event in stream:
            if isinstance(event, Tokens):
                break
        busy = scheduler.slots()[1]
        assert busy.busy
        assert busy.task == 1
        assert busy.processed == 3
        assert busy.decoded >= 1
        assert busy.remaining == 5 - busy.decoded
        assert busy.report == {"seed": 7}
        await collect(stream)
        left = scheduler.slots()[1]
        assert not left.busy
        assert left.task == 1
        assert left.content == 3 + 5 - 1


async def test_stopping_lets_running_requests_finish_within_the_grace_time() -> None:
    engine = FakeEngine()
    scheduler = Scheduler(engine, Inline(engine.clock), Traits(2, 64), Vocabulary(piece, frozenset({END})))
    task = asyncio.create_task(scheduler.run())
    stream = scheduler.submit(request(1, predict=10))
    await asyncio.gather(scheduler.stop(grace=5), asyncio.wait_for(task, 5))
    assert isinstance((await collect(stream))[-1], Finished)
    with pytest.raises(Unavailable):
        scheduler.submit(request(2))


async def test_four_hundred_clients_on_eight_slots_with_leavers_lose_nothing() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=8) as scheduler:

        async def client(n: int) -> bool:
            id = scheduler.next_id()
            stream = scheduler.submit(request(id, prompt=(n, n + 1), predict=3 + n % 7))
            async for event in stream:
                if isinstance(event, Tokens) and n % 5 == 0:
                    scheduler.cancel(id)
                if n % 11 == 0:
                    await asyncio.sleep(0)
                if isinstance(event, Finished):
                    assert event.tokens == tuple(n + 2 + k for k in range(3 + n % 7))
                    return True
            return False

        done = await asyncio.gather(*(client(n) for n in range(1, 401)))
        assert sum(done) >= 320
        while scheduler.totals().busy:
            await asyncio.sleep(0)
        assert not any(slot.busy for slot in scheduler.slots())


async def test_the_device_runs_calls_on_one_thread_and_hands_back_what_they_raise() -> None:
    import threading

    device = Device()
    names = [(await device.run(lambda: threading.current_thread().name)).result for _ in range(3)]
    assert len(set(names)) == 1
    assert names[0].startswith("device")

    def broken() -> int:
        raise ValueError("on the device")

    with pytest.raises(ValueError, match="on the device"):
        await device.run(broken)
    device.close()


async def test_closing_the_device_waits_for_the_calls_that_were_made_and_leaves_its_thread_asleep() -> None:
    """An ended thread would be cleared away by MLX while the interpreter ends (`scheduler/device.py`)."""
    import threading
    import time

    device, done = Device(), list[int]()

    def slow(n: int) -> threading.Thread:
        time.sleep(0.02)
        done.append(n)
        return threading.current_thread()

    calls = [asyncio.create_task(device.run(lambda n=n: slow(n))) for n in range(3)]
    await asyncio.sleep(0)
    device.close()
    assert done == [0, 1, 2]
    thread = (await calls[0]).result
    await asyncio.gather(*calls)
    assert thread.daemon
    assert thread.is_alive()


async def test_forwards_that_read_prompts_are_counted_and_timed() -> None:
    engine = FakeEngine()
    async with serving(engine) as scheduler:
        for id, length in ((1, 10), (2, 20)):
            await answer(scheduler, request(id, prompt=tuple(range(id * 100, id * 100 + length))))
        totals = scheduler.totals()
    assert totals.chunks == 2
    assert totals.chunk_seconds == pytest.approx((9 + 19) * engine.token_seconds)
    assert totals.chunk_seconds_max == pytest.approx(19 * engine.token_seconds)
