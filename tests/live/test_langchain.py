"""langchain-openai, which many programs reach an OpenAI-compatible server through."""

from typing import Any

import pytest

from live.process import Live

pytestmark = [pytest.mark.mlx, pytest.mark.smollm2]

SCHEMA: dict[str, Any] = {
    "title": "colour",
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "warm": {"type": "boolean"}},
    "required": ["name", "warm"],
    "additionalProperties": False,
}


@pytest.fixture
def chat(smollm2_server: Live) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        base_url=f"{smollm2_server.url}/v1",
        api_key="none",  # type: ignore[arg-type]
        model="smollm2",
        temperature=0,
        max_completion_tokens=12,
        max_retries=0,
        stream_usage=True,
    )


def test_langchain_chats_with_and_without_streaming(chat: Any) -> None:
    whole = chat.invoke("What is the capital of France?")
    assert "Paris" in whole.content
    assert whole.response_metadata["finish_reason"] in ("stop", "length")
    chunks = list(chat.stream("What is the capital of France?"))
    assert "".join(chunk.content for chunk in chunks) == whole.content
    (usage,) = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
    assert usage["output_tokens"] == whole.usage_metadata["output_tokens"]


def test_langchain_gets_an_answer_of_its_schema(chat: Any) -> None:
    chat.max_tokens = 64
    answer = chat.with_structured_output(SCHEMA, method="json_schema").invoke("Name a colour.")
    assert isinstance(answer["name"], str)
    assert isinstance(answer["warm"], bool)


async def test_langchain_asks_many_at_once(chat: Any) -> None:
    answers = await chat.abatch([f"{n} + {n} is" for n in range(6)])
    await chat.root_async_client.close()  # langchain keeps it for the next one
    assert [bool(answer.content) for answer in answers] == [True] * 6
