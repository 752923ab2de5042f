"""A client that leaves frees what it held, whatever its request was doing."""

import asyncio

import pytest

from live.client import Body, Client
from live.process import Live

pytestmark = pytest.mark.mlx

ENDLESS: Body = {"prompt": "ab", "n_predict": 3900, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
PROMPT_TOKENS = "llamacpp:prompt_tokens_total"
DEFERRED = "llamacpp:requests_deferred"


async def drop(task: asyncio.Task[object]) -> None:
    """The client's end of the connection closes."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.smollm2
async def test_a_request_without_a_stream_frees_its_slot_within_two_ticks(smollm2: Client) -> None:
    asked = asyncio.create_task(smollm2.post("/completion", {**ENDLESS, "n_predict": 500}))
    await smollm2.until(lambda busy: any(slot["next_token"][0]["n_decoded"] > 1 for slot in busy))
    before = await smollm2.ticks()
    await drop(asked)
    assert await smollm2.until_busy(0) - before <= 2


@pytest.mark.smollm2
@pytest.mark.parametrize("stream", [True, False])
async def test_a_long_prompt_is_given_up_in_the_middle(smollm2: Client, stream: bool) -> None:
    asked = asyncio.create_task(
        smollm2.post("/completion", {"prompt": "word " * 900, "n_predict": 64, "stream": stream, "cache_prompt": False})
    )
    await smollm2.until(lambda busy: any(slot["n_prompt_tokens_processed"] > 0 for slot in busy))
    before = await smollm2.ticks()
    read = (await smollm2.metrics())[PROMPT_TOKENS]
    await drop(asked)
    assert await smollm2.until_busy(0) - before <= 2
    assert 0 < (await smollm2.metrics())[PROMPT_TOKENS] - read < 900
    assert (await smollm2.complete("The capital of France is", 1))["content"] == " Paris"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_queued_request_whose_client_leaves_never_runs(tiny: Client, tiny_server: Live, stream: bool) -> None:
    running = [asyncio.create_task(tiny.post("/completion", ENDLESS)) for _ in range(2)]
    await tiny.until_busy(2)
    logged, read = len(tiny_server.requests), (await tiny.metrics())[PROMPT_TOKENS]
    body = {"prompt": "never read", "n_predict": 4, "stream": stream}
    queued = asyncio.create_task(tiny.post("/completion", body))
    await tiny.until_metric(DEFERRED, 1)
    await drop(queued)
    await tiny.until_metric(DEFERRED, 0)
    for task in running:
        await drop(task)
    await tiny.until_busy(0)
    assert len(tiny_server.requests) == logged
    assert (await tiny.metrics())[PROMPT_TOKENS] - read == 2 * len("ab")
    assert (await tiny.complete("next", 4))["tokens_predicted"] == 4


async def test_a_client_that_leaves_one_of_several_prompts_frees_all_their_slots(tiny: Client) -> None:
    asked = asyncio.create_task(tiny.post("/completion", {**ENDLESS, "prompt": ["ab", "cd", "ef"]}))
    await tiny.until_busy(2)
    await drop(asked)
    await tiny.until_busy(0)
    assert (await tiny.metrics())[DEFERRED] == 0
