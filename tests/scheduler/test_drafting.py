"""Drafted requests through the scheduler: counters, timings, totals, reasons. The drafter is a fake."""

import asyncio
import logging
from itertools import pairwise

import pytest

from fakes import FakeClock, FakeDrafter, FakeEngine
from scheduler.test_scheduler import END, answer, collect, request, serving
from stoker.core.counters import DraftOff, DraftSummary, Kind
from stoker.core.events import Event, Finished, StopType, Tokens
from stoker.core.request import Sampling, Speculation
from stoker.scheduler.scheduler import Scheduler

MIXED = (3, 0, -1, 2, 1)
"""Accepted proposals by round, again and again; -1 is a plain step."""


def engine(*accepted: int, **more: object) -> FakeEngine:
    pattern = accepted or (3,)
    return FakeEngine(drafter=FakeDrafter(accepts=lambda n: pattern[n % len(pattern)]), **more)  # type: ignore[arg-type]


def draft(finished: Finished) -> DraftSummary:
    assert finished.draft is not None
    assert finished.draft_off is None
    return finished.draft


async def cancelled(scheduler: Scheduler, id: int) -> None:
    """Runs a long request up to its second event with tokens, and drops it."""
    seen = 0
    async for event in scheduler.submit(request(id, predict=50, prompt=(90, 91))):
        seen += isinstance(event, Tokens)
        if seen == 2:
            break
    scheduler.cancel(id)
    while scheduler.totals().busy:
        await asyncio.sleep(0)


# counters


async def test_tokens_are_the_same_drafted_or_not() -> None:
    async with serving(FakeEngine()) as plain, serving(engine(*MIXED)) as drafted:
        one, other = await answer(plain, request(1, predict=20)), await answer(drafted, request(1, predict=20))
    assert (one.tokens, one.text, one.stop) == (other.tokens, other.text, other.stop)
    assert (one.draft, one.draft_off) == (None, DraftOff.NO_DRAFTER)
    assert other.rule == "greedy-argmax"


async def test_a_drafted_request_counts_its_rounds() -> None:
    async with serving(engine(3, 0, 1)) as scheduler:
        finished = await answer(scheduler, request(1, predict=7))
    assert draft(finished) == DraftSummary(Kind.PROMPT_LOOKUP, proposed=6, tested=5, accepted=4, rounds=3)
    assert len(finished.tokens) == 4 + 3


async def test_a_round_stays_inside_the_budget() -> None:
    async with serving(engine()) as scheduler:
        finished = await answer(scheduler, request(1, predict=6))
    assert draft(finished) == DraftSummary(Kind.PROMPT_LOOKUP, proposed=4, tested=4, accepted=4, rounds=2)


async def test_one_token_runs_no_round() -> None:
    async with serving(engine()) as scheduler:
        finished = await answer(scheduler, request(1, predict=1))
    assert (finished.draft, finished.draft_off) == (None, DraftOff.NO_PROPOSAL)


@pytest.mark.parametrize(("at", "accepted", "tested"), [(0, 1, 1), (1, 2, 2), (2, 3, 3), (3, 3, 3)])
async def test_a_round_counts_what_was_delivered_before_an_end_token(at: int, accepted: int, tested: int) -> None:
    made = engine(model=lambda prompt, n: END if n == at else 40 + n)
    async with serving(made) as scheduler:
        finished = await answer(scheduler, request(1, predict=-1))
    assert (len(finished.tokens), finished.stop) == (at + 1, StopType.EOS)
    assert draft(finished) == DraftSummary(Kind.PROMPT_LOOKUP, 3, tested, accepted, 1)


async def test_a_round_counts_what_was_delivered_before_a_stop_string() -> None:
    async with serving(engine()) as scheduler:
        finished = await answer(scheduler, request(1, predict=20, stop=("2 33",)))
    assert (finished.tokens, finished.text) == ((31, 32, 33), " 31 3")
    assert draft(finished).accepted == 3
    async with serving(engine()) as scheduler:
        finished = await answer(scheduler, request(1, predict=20, stop=("32",)))
    assert finished.tokens == (31, 32)
    assert draft(finished) == DraftSummary(Kind.PROMPT_LOOKUP, proposed=3, tested=2, accepted=2, rounds=1)


@pytest.mark.parametrize("accepted", [(3,), (0,), (-1,), (-1, 0), (3, 0, 2), MIXED])
async def test_counters_of_four_at_once_add_up(accepted: tuple[int, ...]) -> None:
    async with serving(engine(*accepted), slots=4) as scheduler:
        streams = [scheduler.submit(request(n, predict=12 + 9 * n, prompt=(n, n + 1))) for n in range(4)]
        ends = [(await collect(stream))[-1] for stream in streams]
        totals = scheduler.totals()
    finished = [end for end in ends if isinstance(end, Finished)]
    assert len(finished) == 4
    counted = [end.draft for end in finished if end.draft is not None]
    assert len(counted) == (0 if accepted == (-1,) else 4)
    for end, it in zip(finished, counted, strict=False):
        assert 0 <= it.accepted <= it.tested <= it.proposed
        assert 1 <= it.rounds <= it.proposed
        assert it.accepted <= len(end.tokens)
        if -1 not in accepted:
            assert len(end.tokens) <= 1 + it.accepted + it.rounds
    assert totals.drafted == sum(it.proposed for it in counted)
    assert totals.accepted == sum(it.accepted for it in counted) == sum(totals.accepted_by_position)
    assert totals.rounds == sum(it.rounds for it in counted)
    assert all(sooner >= later for sooner, later in pairwise(totals.accepted_by_position))


async def test_a_cancelled_request_counts_in_the_totals_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(engine()) as scheduler:
        whole = draft(await answer(scheduler, request(1, predict=8)))
        with caplog.at_level(logging.INFO, "stoker.requests"):
            await cancelled(scheduler, 9)
        totals = scheduler.totals()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("cancelled id=9 slot=0 prompt=2 cached=0 predicted=")
    told = dict(word.split("=") for word in line.split()[1:])
    assert (told["draft"], told["rule"]) == ("prompt-lookup", "greedy-argmax")
    assert int(told["rounds"]) >= 2
    assert totals.rounds == whole.rounds + int(told["rounds"])
    assert totals.drafted == whole.proposed + int(told["proposed"])
    assert totals.accepted == whole.accepted + int(told["accepted"])
    assert int(told["predicted"]) == int(told["accepted"]) + int(told["rounds"])


async def test_a_failed_request_keeps_the_rounds_that_it_ran() -> None:
    made = engine()
    async with serving(made) as scheduler:
        stream = scheduler.submit(request(1, predict=50))
        async for event in stream:
            if isinstance(event, Tokens):
                made.faults[1] = RuntimeError("boom")
        assert scheduler.totals().rounds >= 1


async def test_a_forward_that_verifies_is_no_decode() -> None:
    async with serving(engine(-1, 3, 3, -1)) as scheduler:
        await answer(scheduler, request(1, predict=10))
        totals = scheduler.totals()
    assert (totals.decodes, totals.busy_slots, totals.rounds) == (2, 2, 2)


async def test_a_recurrent_slot_that_went_past_a_stop_string_is_not_continued() -> None:
    for recurrent, cached in ((False, 2), (True, 0)):
        made = engine()
        async with serving(made, recurrent=recurrent) as scheduler:
            first = await answer(scheduler, request(1, predict=20, stop=("32",)))
            again = await answer(scheduler, request(2, prompt=(10, 20, 30, *first.tokens, 7)))
        assert again.cached_tokens == (4 if not recurrent else cached)
    async with serving(engine(), recurrent=True) as scheduler:
        first = await answer(scheduler, request(1, predict=4))
        again = await answer(scheduler, request(2, prompt=(10, 20, 30, *first.tokens, 7)))
    assert again.cached_tokens == 6, "a round that ends with the answer leaves a slot that can be continued"


# timings


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """One clock for the scheduler and the engine; requests arrive at its start."""
    clock = FakeClock()
    monkeypatch.setattr("stoker.core.clock.now", clock)
    return clock


async def test_a_drafted_request_that_waits_for_its_slot_shows_it_in_prompt_ms_only(at: FakeClock) -> None:
    made = engine(clock=at, step_seconds=0.1)
    async with serving(made, slots=1) as scheduler:
        first = scheduler.submit(request(1, predict=12, prompt=(5,)))
        second = scheduler.submit(request(2, predict=12, prompt=(6,)))
        await collect(first)
        end = (await collect(second))[-1]
    assert isinstance(end, Finished)
    assert draft(end).rounds == 3
    assert end.timings.prompt_ms == pytest.approx(300, abs=5)
    assert end.timings.predicted_ms == pytest.approx(300, abs=5)


@pytest.mark.parametrize(("accepted", "before"), [(MIXED, 0), ((-1, 3, 3), 1)])
async def test_predicted_ms_is_at_least_the_sum_of_the_rounds(
    at: FakeClock, accepted: tuple[int, ...], before: int
) -> None:
    made = engine(*accepted, clock=at, step_seconds=0.05)
    async with serving(made) as scheduler:
        finished = await answer(scheduler, request(1, predict=30))
    steps = sum(bool(plan.step) for plan in made.plans)
    assert draft(finished).rounds < steps
    assert finished.timings.predicted_ms >= 50 * draft(finished).rounds
    assert finished.timings.predicted_ms == pytest.approx(50 * (steps - before), abs=1)


async def test_an_answer_of_one_round_has_a_possible_speed(at: FakeClock) -> None:
    async with serving(engine(clock=at, step_seconds=0.05, token_seconds=0.01)) as scheduler:
        finished = await answer(scheduler, request(1, predict=4))
        again = await answer(scheduler, request(2, predict=4))
    assert draft(finished).rounds == 1
    assert (finished.timings.prompt_ms, finished.timings.predicted_ms) == (pytest.approx(20), pytest.approx(50))
    assert finished.timings.predicted_per_second == pytest.approx(60)
    assert (again.cached_tokens, again.timings.predicted_ms) == (2, pytest.approx(50))


async def test_time_is_split_where_the_work_was_and_every_round_streams(at: FakeClock) -> None:
    made = engine(clock=at, step_seconds=0.05, token_seconds=0.01)
    begun = made.clock()
    stamps: list[float] = []
    last: Event | None = None
    async with serving(made, context=256) as scheduler:
        async for event in scheduler.submit(request(1, predict=96, prompt=tuple(range(1, 9)))):
            last = event
            if isinstance(event, Tokens):
                stamps.append(made.clock())
    assert isinstance(last, Finished)
    finished = last
    wall = (made.clock() - begun) * 1e3
    assert finished.timings.prompt_ms + finished.timings.predicted_ms == pytest.approx(wall, rel=0.01)
    assert stamps[0] - begun < wall / 2e3
    assert finished.timings.predicted_per_second == pytest.approx(4 / 0.05, rel=0.1)


# reasons


@pytest.mark.parametrize(
    ("wish", "sampling", "off"),
    [
        (Speculation("none", asked=True), Sampling(), DraftOff.DISABLED),
        (Speculation(most=0, asked=True), Sampling(), DraftOff.DISABLED),
        (Speculation("draft-model", asked=True), Sampling(), DraftOff.NO_DRAFTER),
        (Speculation(), Sampling(mirostat=1), DraftOff.SAMPLER),
        (Speculation("prompt-lookup", asked=True), Sampling(frequency_penalty=0.5), None),
        (Speculation(), Sampling(), None),
    ],
)
async def test_a_request_is_drafted_or_its_reason_is_told(
    wish: Speculation, sampling: Sampling, off: DraftOff | None
) -> None:
    async with serving(engine()) as scheduler:
        finished = await answer(scheduler, request(1, predict=8, speculation=wish, sampling=sampling))
        totals, slot = scheduler.totals(), scheduler.slots()[1]
    assert finished.tokens == tuple(range(31, 39))
    assert finished.draft_off is off
    assert (finished.draft is None) is (off is not None)
    assert totals.draft_off == ({off: 1} if off else {})
    assert (slot.draft_kind, slot.draft_off) == (None if off else Kind.PROMPT_LOOKUP, off)


async def test_a_slot_shows_what_drafts_in_it_and_why_it_pauses() -> None:
    made = FakeEngine(drafter=FakeDrafter(accepts=lambda n: -1 if n else 3, off=DraftOff.DOES_NOT_PAY))
    async with serving(made) as scheduler:
        stream = scheduler.submit(request(1, predict=30))
        seen: list[tuple[Kind | None, DraftOff | None]] = []
        async for event in stream:
            if isinstance(event, Tokens):
                seen.append((scheduler.slots()[1].draft_kind, scheduler.slots()[1].draft_off))
        left = scheduler.slots()[1]
    assert (Kind.PROMPT_LOOKUP, DraftOff.DOES_NOT_PAY) in seen
    assert (left.draft_kind, left.draft_off) == (Kind.PROMPT_LOOKUP, None), "it was drafted"


async def test_a_request_that_generated_nothing_gives_no_reason() -> None:
    made = FakeEngine(faults={1: RuntimeError("boom")})
    async with serving(made) as scheduler:
        await collect(scheduler.submit(request(1)))
        assert scheduler.totals().draft_off == {}
        assert scheduler.slots()[1].draft_off is None
