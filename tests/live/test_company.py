"""Many at once: everyone gets what they would get alone, whoever comes and goes."""

import asyncio

import pytest

from live.client import Client
from live.jobs import answer, jobs, streamed

pytestmark = [pytest.mark.mlx, pytest.mark.smollm2]

LEAVERS_TOKENS = 400


async def together(client: Client, count: int, tokens: int, longest: int) -> None:
    work = jobs(count, tokens, longest)
    alone = [await answer(client, job) for job in work]
    assert await asyncio.gather(*(streamed(client, job) for job in work)) == alone
    assert len(set(alone)) == count


async def test_streams_together_say_what_each_says_alone(smollm2: Client) -> None:
    await together(smollm2, count=8, tokens=16, longest=40)


@pytest.mark.slow
async def test_sixteen_streams_together_say_what_each_says_alone(smollm2: Client) -> None:
    await together(smollm2, count=16, tokens=64, longest=300)


async def half_leaves(client: Client, count: int, tokens: int, longest: int) -> None:
    work = jobs(count, tokens, longest)
    stay, leave = work[: count // 2], [{**job, "n_predict": LEAVERS_TOKENS} for job in work[count // 2 :]]
    alone = [await answer(client, job) for job in stay]
    streaming, go = asyncio.Barrier(count + 1), asyncio.Event()

    async def stayer(job: dict[str, object]) -> str:
        async with client.stream("/completion", job) as stream:
            await stream.read(2)
            await streaming.wait()
            return (await stream.rest()).text

    async def leaver(job: dict[str, object]) -> None:
        async with client.stream("/completion", job) as stream:
            await stream.read(2)
            await streaming.wait()
            await go.wait()

    leavers = [asyncio.create_task(leaver(job)) for job in leave]
    stayers = [asyncio.create_task(stayer(job)) for job in stay]
    async with asyncio.timeout(60):
        await streaming.wait()
        assert len(await client.busy()) == count
        before = await client.ticks()
        go.set()
        await asyncio.gather(*leavers)
        after = await client.until_busy(len(stay))
    assert after - before <= 2
    assert await asyncio.gather(*stayers) == alone


async def test_half_of_the_streams_leave_and_the_others_do_not_notice(smollm2: Client) -> None:
    await half_leaves(smollm2, count=6, tokens=14, longest=12)


@pytest.mark.slow
async def test_eight_of_sixteen_streams_leave_and_the_others_do_not_notice(smollm2: Client) -> None:
    await half_leaves(smollm2, count=16, tokens=64, longest=60)


async def test_a_second_turn_reuses_the_first_ones_prefix_and_says_what_a_cold_run_says(smollm2: Client) -> None:
    first = [{"role": "user", "content": "Name three colours of the rainbow, please."}]
    common = {"temperature": 0, "max_tokens": 12}
    said = (await smollm2.ask("/v1/chat/completions", {"messages": first, **common}))["choices"][0]["message"]
    second = [*first, said, {"role": "user", "content": "And three more?"}]
    cold = await smollm2.ask("/v1/chat/completions", {"messages": second, "cache_prompt": False, **common})
    await smollm2.ask("/v1/chat/completions", {"messages": first, **common})
    warm = await smollm2.ask("/v1/chat/completions", {"messages": second, **common})
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    cached = warm["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == warm["timings"]["cache_n"] > 0.5 * warm["usage"]["prompt_tokens"]
    assert warm["timings"]["prompt_n"] == warm["usage"]["prompt_tokens"] - cached
    assert warm["choices"][0]["message"] == cold["choices"][0]["message"]
