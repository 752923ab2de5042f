"""The prompt cache's bookkeeping, and the scheduler with it."""

import pytest

from fakes import FakeEngine
from scheduler.test_scheduler import answer, request, serving
from stoker.core.request import Request
from stoker.core.work import Keep, Traits
from stoker.scheduler.kept import Kept
from stoker.scheduler.scheduler import Policy
from stoker.scheduler.slots import Place

COLUMN = 10
A, B, C = (1, 2, 3, 4), (5, 6, 7, 8), (9, 9, 9, 9)


def kept(limit: int = -1, *, recurrent: bool = False) -> Kept:
    return Kept(limit, Traits(2, 64, recurrent, bytes_per_column=COLUMN, bytes_per_slot=4 * recurrent))


def ask(*prompt: int, cache_prompt: bool = True) -> Request:
    return Request(1, prompt, arrived=0.0, cache_prompt=cache_prompt)


def lose(cache: Kept, content: tuple[int, ...], slot: int = 0) -> tuple[tuple[Keep, ...], tuple[int, ...]]:
    """A slot is given to a prompt that shares nothing with what it holds."""
    assert cache.improve(Place(slot, 0, content=content), ask(99, 98)) == Place(slot, 0)
    return cache.orders()


def test_a_content_that_a_prompt_would_overwrite_is_kept_and_found_again() -> None:
    cache = kept()
    assert lose(cache, A) == ((Keep(0, 1),), ())
    assert cache.improve(Place(1, 0), ask(1, 2, 3, 7)) == Place(1, 3, kept=1)
    assert (cache.view.entries, cache.view.size, cache.view.hits, cache.view.tokens) == (1, 4 * COLUMN, 1, 3)


def test_the_last_prompt_token_is_always_run_again() -> None:
    cache = kept()
    lose(cache, A)
    assert cache.improve(Place(1, 0), ask(*A)).cached == 3


def test_what_a_slot_has_itself_is_preferred_to_as_much_elsewhere() -> None:
    cache = kept()
    lose(cache, A)
    assert cache.improve(Place(1, 2), ask(1, 2, 8)) == Place(1, 2)


def test_a_long_content_is_not_fetched_for_a_token_or_two() -> None:
    cache = kept()
    lose(cache, tuple(range(1, 200)))
    assert cache.improve(Place(1, 0), ask(1, 2, 3, 9)) == Place(1, 0)
    assert cache.improve(Place(1, 0), ask(1, 2, 3, 4, 9)) == Place(1, 4, kept=1)


def test_a_slot_that_keeps_half_of_its_content_loses_nothing_worth_keeping() -> None:
    cache = kept()
    cache.improve(Place(0, 2, content=A), ask(1, 2, 9, 9))
    assert cache.orders() == ((), ())
    cache.improve(Place(0, 1, content=A), ask(1, 9, 9, 9))
    assert cache.orders() == ((Keep(0, 1),), ())


def test_a_content_that_the_new_prompt_continues_is_not_kept() -> None:
    cache = kept()
    lose(cache, (*A, 5, 6))
    cache.improve(Place(0, 4, content=A), ask(*A, 5, 6, 7))
    assert cache.orders() == ((), ())


def test_a_request_that_declines_the_cache_takes_nothing_from_it_but_leaves_what_was_there() -> None:
    cache = kept()
    lose(cache, A)
    assert cache.improve(Place(1, 0, content=B), ask(*A, cache_prompt=False)) == Place(1, 0)
    assert cache.orders() == ((Keep(1, 2),), ())


def test_the_least_recently_used_goes_first_and_the_limit_holds() -> None:
    cache = kept(8 * COLUMN)
    lose(cache, A)
    lose(cache, B)
    cache.improve(Place(1, 0), ask(*A))
    cache.orders()
    assert lose(cache, C) == ((Keep(0, 3),), (2,))
    assert (cache.view.size, cache.view.evicted) == (8 * COLUMN, 1)


def test_what_does_not_fit_at_all_is_not_kept_and_drives_nothing_out() -> None:
    cache = kept(4 * COLUMN)
    lose(cache, A)
    assert lose(cache, (*B, 9)) == ((), ())
    assert cache.view.entries == 1


def test_a_content_that_is_about_to_be_used_is_not_driven_out_by_the_one_that_gives_way() -> None:
    cache = kept(4 * COLUMN)
    lose(cache, A)
    assert cache.improve(Place(0, 0, content=B), ask(*A, 1)) == Place(0, 4, kept=1)
    assert cache.orders() == ((), ())


def test_a_shorter_content_goes_when_a_longer_one_begins_with_it() -> None:
    cache = kept()
    lose(cache, A)
    assert lose(cache, (*A, 5)) == ((Keep(0, 2),), (1,))
    assert lose(cache, A) == ((), ()), "and does not come back beside it"


def test_a_recurrent_content_serves_only_prompts_that_continue_it_and_is_kept_at_each_length() -> None:
    cache = kept(recurrent=True)
    lose(cache, A)
    assert lose(cache, (*A, 5)) == ((Keep(0, 2),), ())
    assert cache.view.size == 9 * COLUMN + 8
    assert cache.improve(Place(1, 0), ask(1, 2, 3, 9)) == Place(1, 0)
    assert cache.improve(Place(1, 0), ask(*A, 9)) == Place(1, 4, kept=1)
    assert cache.improve(Place(1, 0), ask(*A, 5, 9)) == Place(1, 5, kept=2)


def test_a_limit_of_zero_keeps_nothing() -> None:
    cache = kept(0)
    assert lose(cache, A) == ((), ())


def test_nothing_is_left_after_clearing() -> None:
    cache = kept()
    lose(cache, A)
    cache.clear()
    assert cache.improve(Place(1, 0), ask(*A)) == Place(1, 0)
    assert cache.view.entries == 0


# the scheduler with it

CACHE = Policy(cache=-1)


@pytest.mark.parametrize("recurrent", [False, True])
async def test_a_prompt_that_comes_back_is_taken_from_the_cache(recurrent: bool) -> None:
    engine = FakeEngine()
    async with serving(engine, slots=1, recurrent=recurrent, policy=CACHE) as scheduler:
        first = await answer(scheduler, request(1, prompt=(1, 2, 3, 4)))
        await answer(scheduler, request(2, prompt=(50, 51, 52)))
        again = await answer(scheduler, request(3, prompt=(1, 2, 3, 4, *first.tokens, 9)))
        assert again.cached_tokens == 4 + len(first.tokens) - 1
        assert scheduler.totals().kept.hits == 1
        assert scheduler.totals().kept.entries == 2


async def test_without_a_cache_it_is_read_again() -> None:
    async with serving(FakeEngine(), slots=1) as scheduler:
        await answer(scheduler, request(1, prompt=(1, 2, 3, 4)))
        await answer(scheduler, request(2, prompt=(50, 51, 52)))
        assert (await answer(scheduler, request(3, prompt=(1, 2, 3, 4)))).cached_tokens == 0


async def test_a_prompt_in_another_slot_begins_with_a_copy_from_an_idle_one() -> None:
    engine = FakeEngine()
    async with serving(engine, slots=2, policy=Policy(idle_slots=True)) as scheduler:
        await answer(scheduler, request(1, prompt=(1, 2, 3, 4), slot=0))
        copied = await answer(scheduler, request(2, prompt=(1, 2, 3, 9), slot=1))
        assert (copied.slot, copied.cached_tokens) == (1, 3)
    (join,) = [join for plan in engine.plans for join in plan.join if join.id == 2]
    assert join.source == 0


async def test_a_recurrent_slot_is_copied_only_whole() -> None:
    async with serving(FakeEngine(), slots=2, recurrent=True, policy=Policy(idle_slots=True)) as scheduler:
        first = await answer(scheduler, request(1, prompt=(1, 2, 3, 4), slot=0))
        assert (await answer(scheduler, request(2, prompt=(1, 2, 3, 9), slot=1))).cached_tokens == 0
        longer = (1, 2, 3, 4, *first.tokens)
        assert (await answer(scheduler, request(3, prompt=longer, slot=1))).cached_tokens == len(longer) - 1
