"""Demands A3 and A4 where they concern tools, agents and silence; a scripted engine takes its time."""

import asyncio
from itertools import pairwise

import pytest

from fakes import FakeEngine
from live.client import Body, Client, Stream
from live.scripted import serving, speaker

CHAT = "/v1/chat/completions"
TEMPLATE = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools> answer with <tool_call></tool_call>\n{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for call in m.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>\n{% endif %}"
)
SPACED = "- a\n\n- b\n\n\n    code\n\n \n  end"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
TOOL: Body = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HI: Body = {"model": "M", "temperature": 0, "max_tokens": 200, "messages": [{"role": "user", "content": "Hi"}]}


def says(text: str) -> FakeEngine:
    return FakeEngine(model=speaker(("<assistant>\n", text), ("Hi", text)))


async def stream(client: Client, path: str, body: Body) -> Stream:
    async with client.stream(path, body) as opened:
        return await opened.rest()


@pytest.mark.parametrize("tools", [{}, {"tools": [TOOL]}], ids=["plain", "tools"])
async def test_a3_white_space_survives_with_and_without_tools(tools: Body) -> None:
    async with serving(says(SPACED), TEMPLATE) as client:
        whole = await client.ask(CHAT, {**HI, **tools})
        assert whole["choices"][0]["message"]["content"] == SPACED
        assert (await stream(client, CHAT, {**HI, **tools})).text == SPACED
        text = {"model": "M", "prompt": "Hi", "max_tokens": 64, "temperature": 0}
        assert (await client.ask("/v1/completions", text))["choices"][0]["text"] == SPACED
        streamed = await stream(client, "/v1/completions", text)
        assert streamed.text == SPACED
        assert streamed.raw[-1][1] == "data: [DONE]"


def gaps(opened: Stream) -> list[float]:
    """Seconds between lines, comments among them."""
    return [later - earlier for (earlier, _), (later, _) in pairwise(opened.raw)]


async def test_a4_comments_come_while_the_text_of_a_call_is_held_back() -> None:
    async with serving(says(CALL), TEMPLATE, seconds=0.09) as client:
        opened = await stream(client, CHAT, {**HI, "tools": [TOOL], "sse_ping_interval": 1})
    assert max(gaps(opened)) < 1.5
    assert ":" in [line for _, line in opened.raw], "it was silent for long enough"
    calls = [call for frame in opened.frames for call in frame["choices"][0]["delta"].get("tool_calls", ())]
    assert "".join(call["function"].get("arguments", "") for call in calls) == '{"city": "Paris"}'


async def test_a4_minus_one_turns_the_comments_off_and_responses_send_events() -> None:
    async with serving(says("Hello"), TEMPLATE, seconds=1.4) as client:
        silent, beating = await asyncio.gather(
            stream(client, CHAT, {**HI, "max_tokens": 2, "sse_ping_interval": -1}),
            stream(
                client, "/v1/responses", {"model": "M", "input": "Hi", "max_output_tokens": 2, "sse_ping_interval": 1}
            ),
        )
    assert [line for _, line in silent.raw if line.startswith(":")] == []
    kinds = [frame["type"] for frame in beating.frames]
    assert kinds.count("response.in_progress") > 1, "a real event, which agents take for a sign of life"
    assert max(gaps(beating)) < 1.5
