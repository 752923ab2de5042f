"""A bound on thoughts: counted by text, enforced by words that the sequence says and its next row reads."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fakes import FakeDrafter, FakeEngine, Inline
from stoker.core.events import Event, Finished, Progress, StopType, Tokens
from stoker.core.request import Limits, Request, ThoughtLimit
from stoker.core.work import Traits
from stoker.scheduler.scheduler import Scheduler, Vocabulary
from stoker.scheduler.thinking import ThoughtWatch

END, OPEN, CLOSE, HALF, REST, CALL = range(6)
TEXTS = {END: b"", OPEN: b"<think>", CLOSE: b"</think>", HALF: b"\xc3", REST: b"\xa4", CALL: b"<call>"}
LIMIT = ThoughtLimit("<think>", ("</think>", "<call>"), (90, CLOSE), budget=3)


def piece(token: int, special: bool) -> bytes:
    return TEXTS.get(token, f" {token}".encode())


def scripted(*tokens: int) -> Callable[[Sequence[int], int], int]:
    """A model that says these tokens behind the prompt 10 11 12, whatever words it was given, then 99 and the end."""

    def model(prompt: Sequence[int], n: int) -> int:
        at = len(prompt) - 3 + n
        return tokens[at] if at < len(tokens) else (99 if at == len(tokens) else END)

    return model


async def run(engine: FakeEngine, *, recurrent: bool = False, context: int = 64, **fields: Any) -> list[Event]:
    scheduler = Scheduler(
        engine, Inline(engine.clock), Traits(2, context, recurrent), Vocabulary(piece, frozenset({END}))
    )
    task = asyncio.create_task(scheduler.run())
    try:
        request = Request(1, (10, 11, 12), arrived=100.0, **fields)
        return [event async for event in scheduler.submit(request)]
    finally:
        await scheduler.stop()
        await asyncio.wait_for(task, 5)


async def final(engine: FakeEngine, **fields: Any) -> Finished:
    last = (await run(engine, **fields))[-1]
    assert isinstance(last, Finished)
    return last


THINKS = (OPEN, 20, 21, 22, 23, 24, 25, 26)
"""More than the budget allows; what is said at places taken by forced words is never heard."""


async def test_a_thought_ends_when_its_budget_is_spent() -> None:
    engine = FakeEngine(model=scripted(*THINKS))
    end = await final(engine, thought=LIMIT)
    assert end.tokens == (OPEN, 20, 21, 22, 90, CLOSE, 25, 26, 99, END)
    assert end.text == "<think> 20 21 22 90</think> 25 26 99"
    assert end.stop is StopType.EOS


async def test_the_new_row_reads_only_what_the_slot_lacks() -> None:
    engine = FakeEngine(model=scripted(*THINKS))
    await final(engine, thought=LIMIT)
    joins = [join for plan in engine.plans for join in plan.join]
    assert [(join.slot, join.prompt, join.cached) for join in joins] == [
        (1, (10, 11, 12), 0),
        (1, (10, 11, 12, OPEN, 20, 21, 22, 90, CLOSE), 6),
    ]
    turn = next(plan for plan in engine.plans if len(plan.join) == 1 and plan.join[0].cached)
    assert [release.keep for release in turn.release] == [6]
    assert turn.step == turn.prefill == ()


async def test_a_thought_that_ends_in_time_is_left_alone() -> None:
    engine = FakeEngine(model=scripted(OPEN, 20, 21, CLOSE, 30, 31, 32, 33, 34))
    end = await final(engine, thought=LIMIT)
    assert end.text == "<think> 20 21</think> 30 31 32 33 34 99"
    assert len([join for plan in engine.plans for join in plan.join]) == 1


async def test_another_text_may_close_a_thought_and_each_thought_has_the_whole_budget() -> None:
    engine = FakeEngine(model=scripted(OPEN, 20, 21, CALL, 30, 31, OPEN, 40, 41, CLOSE, 60))
    end = await final(engine, thought=LIMIT)
    assert end.text == "<think> 20 21<call> 30 31<think> 40 41</think> 60 99"


@pytest.mark.parametrize("budget", [0, 2])
async def test_a_budget_counts_from_the_prompt_where_that_opened_the_thought(budget: int) -> None:
    engine = FakeEngine(model=scripted(20, 21, 22, 23, 24))
    events = await run(engine, thought=replace(LIMIT, budget=budget, inside=True))
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.tokens[: budget + 2] == (*(20, 21)[:budget], 90, CLOSE)
    assert isinstance(events[0], Progress)
    assert [type(event) for event in events].count(Progress) == 2, "reading forced words is no progress of the prompt"
    assert end.timings.prompt == 3
    assert end.timings.predicted == len(end.tokens)


async def test_all_pieces_of_a_stream_add_up_to_the_text() -> None:
    events = await run(FakeEngine(model=scripted(*THINKS)), thought=LIMIT)
    pieces = [piece for event in events if isinstance(event, Tokens) for piece in event.pieces]
    end = events[-1]
    assert isinstance(end, Finished)
    assert "".join(piece.text for piece in pieces) == end.text
    assert [piece.count for piece in pieces] == list(range(1, len(end.tokens) + 1))


async def test_a_drafted_round_is_cut_at_the_budget() -> None:
    plain = await final(FakeEngine(model=scripted(*THINKS)), thought=LIMIT)
    engine = FakeEngine(model=scripted(*THINKS), drafter=FakeDrafter(width=3))
    drafted = await final(engine, thought=LIMIT)
    assert (drafted.text, drafted.tokens) == (plain.text, plain.tokens)
    assert drafted.draft is not None


async def test_a_recurrent_state_that_went_past_the_budget_is_read_anew() -> None:
    engine = FakeEngine(model=scripted(20, 21, 22, 23, 24, 25), drafter=FakeDrafter(width=3))
    end = await final(engine, recurrent=True, thought=replace(LIMIT, budget=2, inside=True))
    assert end.tokens[:4] == (20, 21, 90, CLOSE)
    assert [join.cached for plan in engine.plans for join in plan.join] == [0, 0]


async def test_a_character_is_finished_first() -> None:
    engine = FakeEngine(model=scripted(20, 21, HALF, REST, 34, 35, 36))
    end = await final(engine, thought=replace(LIMIT, inside=True))
    assert end.text.startswith(" 20 21ä 90</think>")


async def test_the_answer_may_end_among_the_forced_words() -> None:
    engine = FakeEngine(model=scripted(20, 21, 22, 23, 24))
    thought = replace(LIMIT, inside=True)
    end = await final(engine, thought=thought, limits=Limits(predict=4))
    assert (end.text, end.stop) == (" 20 21 22 90", StopType.LIMIT)
    assert engine.plans[-1].release[0].keep == 5, "the forced word is not in the slot"


async def test_a_thought_without_a_bound_can_be_ended_from_outside() -> None:
    engine = FakeEngine(model=scripted(*range(20, 40)))
    scheduler = Scheduler(engine, Inline(engine.clock), Traits(2, 64), Vocabulary(piece, frozenset({END})))
    task = asyncio.create_task(scheduler.run())
    stream = scheduler.submit(Request(1, (10, 11, 12), 100.0, thought=replace(LIMIT, budget=-1, inside=True)))
    assert not scheduler.end_thought(1), "it has no slot yet"
    texts: list[str] = []
    async for event in stream:
        if isinstance(event, Tokens):
            texts += [piece.text for piece in event.pieces]
            if len(texts) == 5:
                assert scheduler.end_thought(1)
    assert "".join(texts).startswith(" 20 21 22 23 24")
    assert " 90</think>" in "".join(texts[:9])
    assert not scheduler.end_thought(1)
    await scheduler.stop()
    await asyncio.wait_for(task, 5)


async def test_leaving_while_forced_words_are_due_leaves_no_row() -> None:
    for stop_after in range(1, 12):
        engine = FakeEngine(model=scripted(*THINKS))
        scheduler = Scheduler(engine, Inline(engine.clock), Traits(1, 64), Vocabulary(piece, frozenset({END})))
        task = asyncio.create_task(scheduler.run())
        stream = scheduler.submit(Request(1, (10, 11, 12), 100.0, thought=LIMIT))
        while (len(engine.plans) < stop_after and not task.done() and engine.rows) or not engine.plans:
            await asyncio.sleep(0)
        scheduler.cancel(1)
        del stream
        again = [event async for event in scheduler.submit(Request(2, (10, 11, 12), 100.0))]
        assert isinstance(again[-1], Finished)
        await scheduler.stop()
        await asyncio.wait_for(task, 5)
        assert engine.rows == {}


def test_tags_are_found_however_they_are_cut() -> None:
    watch = ThoughtWatch(replace(LIMIT, budget=2))
    for text in ("a", "<th", "ink>", "x"):
        assert not watch.over
        watch.push(text)
    assert watch.inside
    watch.push("y")
    assert watch.over
    watch.push("</think><think></think>")
    assert not watch.inside
    assert not watch.order_end()
