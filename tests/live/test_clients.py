"""Clients as people have them: curl's request, and the official `openai` package."""

from collections.abc import AsyncIterator

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from live.client import Client
from live.process import Live

pytestmark = [pytest.mark.mlx, pytest.mark.smollm2]

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
async def official(smollm2_server: Live) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{smollm2_server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_the_capital_of_france_is_paris(smollm2: Client) -> None:
    answer = await smollm2.complete("The capital of France is", 8)
    assert answer["content"].startswith(" Paris")
    assert answer["tokens_predicted"] == 8


async def test_the_openai_package_chats_with_and_without_streaming(official: openai.AsyncOpenAI) -> None:
    whole = await official.chat.completions.create(model="smollm2", messages=QUESTION, max_tokens=12, temperature=0)
    assert "Paris" in (whole.choices[0].message.content or "")
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage is not None
    pieces: list[str] = []
    usage = None
    async for chunk in await official.chat.completions.create(
        model="smollm2",
        messages=QUESTION,
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ):
        pieces += [choice.delta.content or "" for choice in chunk.choices]
        usage = chunk.usage or usage
    assert "".join(pieces) == whole.choices[0].message.content
    assert usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens


async def test_the_openai_package_reads_logprobs(official: openai.AsyncOpenAI) -> None:
    answer = await official.chat.completions.create(
        model="smollm2", messages=QUESTION, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    content = logprobs.content or []
    assert "".join(one.token for one in content) == answer.choices[0].message.content
    for one in content:
        assert one.top_logprobs[0].token == one.token
        assert len(one.top_logprobs) == 2
        assert one.logprob == one.top_logprobs[0].logprob <= 0
    text = await official.completions.create(model="smollm2", prompt="One, two,", max_tokens=3, temperature=0)
    assert text.choices[0].text


async def test_the_openai_package_lists_the_model(official: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in official.models.list()] == ["smollm2"]


async def test_the_openai_package_gets_errors_of_its_own_types(official: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size") as caught:
        await official.completions.create(model="smollm2", prompt="word " * 2000, max_tokens=1)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "exceed_context_size_error"
    with pytest.raises(openai.BadRequestError):
        await official.chat.completions.create(model="smollm2", messages=[], max_tokens="many")  # type: ignore[call-overload]
    with pytest.raises(openai.NotFoundError):
        await official.files.retrieve("none")
