"""The official `openai` and `anthropic` packages against the app in process: responses, thoughts, tool calls."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from routes.fakes import Bench, bench, says
from stoker.core.events import StopType
from stoker.text.template import ChatTemplate

TEMPLATE = ChatTemplate(
    "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{% for call in m.tool_calls %}{{ call.function.name }}{% endfor %}{% endfor %}<assistant>"
)
TEXTS = ("<think>", "I need ", "it.</think>\n", "Look", "ing.\n", '<tool_call>{"name": "weather", "argu',
         'ments": {"city": "Pa', 'ris"}}', "</tool_call>")  # fmt: skip
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture
def made() -> Bench:
    return bench(says(*TEXTS, stop=StopType.EOS), template=TEMPLATE)


@pytest.fixture
async def gpt(made: Bench) -> AsyncIterator[openai.AsyncOpenAI]:
    transport = httpx2.AsyncClient(transport=httpx2.ASGITransport(made.app))
    async with openai.AsyncOpenAI(
        base_url="http://test/v1", api_key="none", max_retries=0, http_client=transport
    ) as it:
        yield it


@pytest.fixture
async def claude(made: Bench) -> AsyncIterator[anthropic.AsyncAnthropic]:
    transport = httpx2.AsyncClient(transport=httpx2.ASGITransport(made.app))
    async with anthropic.AsyncAnthropic(
        base_url="http://test", api_key="none", max_retries=0, http_client=transport
    ) as it:
        yield it


FUNCTION: Any = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
RESPONSE_TOOL: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
CLAUDE_TOOL: Any = {"name": "weather", "description": "of a city", "input_schema": SCHEMA}
ASK: Any = [{"role": "user", "content": "Weather in Paris?"}]


async def test_openai_reads_a_streamed_tool_call(gpt: openai.AsyncOpenAI) -> None:
    names: list[str] = []
    content = arguments = thought = ""
    reason = None
    async for chunk in await gpt.chat.completions.create(model="m", messages=ASK, tools=[FUNCTION], stream=True):
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        thought += getattr(choice.delta, "reasoning_content", None) or ""
        for call in choice.delta.tool_calls or []:
            assert call.index == 0
            assert call.function is not None
            names += [call.function.name] if call.function.name else []
            arguments += call.function.arguments or ""
        reason = choice.finish_reason or reason
    assert (content, thought, reason) == ("Looking.", "I need it.", "tool_calls")
    assert (names, arguments) == (["weather"], '{"city": "Paris"}')


async def test_openais_own_helper_puts_a_streamed_tool_call_together(gpt: openai.AsyncOpenAI) -> None:
    async with gpt.chat.completions.stream(model="m", messages=ASK, tools=[FUNCTION]) as stream:
        final = await stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls is not None
    assert (calls[0].function.name, calls[0].function.arguments) == ("weather", '{"city": "Paris"}')


async def test_openai_sends_the_result_of_a_call_back(gpt: openai.AsyncOpenAI, made: Bench) -> None:
    first = await gpt.chat.completions.create(model="m", messages=ASK, tools=[FUNCTION])
    said = first.choices[0].message
    assert said.tool_calls is not None
    result = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "mild"}
    again: Any = [*ASK, said.model_dump(exclude_none=True), result]
    await gpt.chat.completions.create(model="m", messages=again, tools=[FUNCTION])
    assert b"I need it." in bytes(id for id in made.scheduler.requests[1].prompt if id < 256)
    assert bytes(made.scheduler.requests[1].prompt).endswith(b"weather<tool>mild<assistant>")


async def test_openai_reads_a_response(gpt: openai.AsyncOpenAI) -> None:
    response = await gpt.responses.create(model="m", input="Weather in Paris?", tools=[RESPONSE_TOOL])
    assert response.output_text == "Looking."
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    call = response.output[2]
    assert call.type == "function_call"
    assert call.arguments == '{"city": "Paris"}'
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + 9


async def test_openai_reads_the_events_of_a_response(gpt: openai.AsyncOpenAI) -> None:
    text = arguments = thought = ""
    kinds: list[str] = []
    async for event in await gpt.responses.create(model="m", input=ASK, tools=[RESPONSE_TOOL], stream=True):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "response.function_call_arguments.delta":
            arguments += event.delta
        elif event.type == "response.reasoning_text.delta":
            thought += event.delta
        elif event.type == "response.completed":
            assert event.response.output_text == text
    assert (text, arguments, thought) == ("Looking.", '{"city": "Paris"}', "I need it.")
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


async def test_openai_continues_with_the_items_of_a_response(gpt: openai.AsyncOpenAI, made: Bench) -> None:
    first = await gpt.responses.create(model="m", input=ASK, tools=[RESPONSE_TOOL])
    call = first.output[2]
    assert call.type == "function_call"
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "mild"}
    items: Any = [*ASK, *(item.model_dump(exclude_none=True) for item in first.output), result]
    await gpt.responses.create(model="m", input=items, tools=[RESPONSE_TOOL])
    assert bytes(made.scheduler.requests[1].prompt).endswith(
        b"<assistant>Looking.<think>I need it.</think>weather<tool>mild<assistant>"
    )


async def test_anthropic_reads_a_message(claude: anthropic.AsyncAnthropic) -> None:
    answer = await claude.messages.create(model="m", max_tokens=64, messages=ASK, tools=[CLAUDE_TOOL])
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
    call = answer.content[2]
    assert call.type == "tool_use"
    assert (call.name, call.input, answer.stop_reason) == ("weather", {"city": "Paris"}, "tool_use")


async def test_anthropics_own_helper_puts_a_stream_together(claude: anthropic.AsyncAnthropic) -> None:
    async with claude.messages.stream(model="m", max_tokens=64, messages=ASK, tools=[CLAUDE_TOOL]) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()
    assert text == "Looking."
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use"]
    call = final.content[2]
    assert call.type == "tool_use"
    assert call.input == {"city": "Paris"}
    assert (final.stop_reason, final.usage.output_tokens) == ("tool_use", 9)


async def test_anthropic_sends_blocks_back_and_counts_tokens(claude: anthropic.AsyncAnthropic, made: Bench) -> None:
    first = await claude.messages.create(model="m", max_tokens=64, messages=ASK, tools=[CLAUDE_TOOL])
    call = first.content[2]
    assert call.type == "tool_use"
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "mild"}]}
    again: Any = [*ASK, {"role": "assistant", "content": first.content}, result]
    await claude.messages.create(model="m", max_tokens=64, messages=again, tools=[CLAUDE_TOOL], system="Be kind")
    prompt = made.scheduler.requests[1].prompt
    assert bytes(prompt).endswith(b"Looking.<think>I need it.</think>weather<tool>mild<assistant>")
    counted = await claude.messages.count_tokens(model="m", messages=again, tools=[CLAUDE_TOOL], system="Be kind")
    assert counted.input_tokens == len(prompt)


async def test_anthropic_raises_its_own_errors(claude: anthropic.AsyncAnthropic) -> None:
    wrong: Any = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}]
    with pytest.raises(anthropic.InternalServerError, match="image input is not supported"):
        await claude.messages.create(model="m", max_tokens=4, messages=wrong)
