"""`/v1/responses` and `/v1/messages`: bodies in, objects and events out."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any

import pytest

from routes.fakes import Bench, bench, events, finished, message, piece, progress, says
from stoker.core.errors import ServerFault
from stoker.core.events import Event, Failed, StopType, Tokens
from stoker.core.request import Request
from stoker.routes.schema import anthropic, responses
from stoker.text.template import ChatTemplate

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
USER = {"role": "user", "content": "Hi"}
QWEN = ChatTemplate(
    "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for call in m.tool_calls %}{{ call.function.name }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}"
)
THOUGHT = ("<think>", "hm", "</think>", "Yes", '<tool_call>{"name": "now", "arguments": {"a"', ": 1}}</tool_call>")
FUNCTION = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}}
TOOL = {"name": "now", "description": "the time", "input_schema": {"type": "object", "properties": {}}}


def thinker(*texts: str, **ends: Any) -> Bench:
    return bench(says(*(texts or THOUGHT), **({"stop": StopType.EOS} | ends)), template=QWEN)


def asked(**fields: Any) -> dict[str, Any]:
    return {"input": "Hi", **fields}


def sent(**fields: Any) -> dict[str, Any]:
    return {"messages": [USER], "max_tokens": 8, **fields}


def heard(made: Bench, number: int = 0) -> str:
    return bytes(id for id in made.scheduler.requests[number].prompt if id < 256).decode()


# --- responses


async def test_a_response_has_an_item_for_thought_message_and_call() -> None:
    answer = (await thinker().post(RESPONSES, asked(tools=[FUNCTION]))).json()
    assert list(answer) == [
        *("completed_at", "created_at", "id", "model", "object", "output", "status", "usage")
    ]  # fmt: skip
    assert re.fullmatch(r"resp_\w{32}", answer["id"])
    reasoning, said, call = answer["output"]
    assert reasoning == {
        "id": reasoning["id"],
        "summary": [],
        "type": "reasoning",
        "content": [{"text": "hm", "type": "reasoning_text"}],
        "encrypted_content": "",
        "status": "completed",
    }
    assert re.fullmatch(r"rs_\w{32}", reasoning["id"])
    assert said["content"] == [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Yes"}]
    assert list(call) == ["id", "type", "status", "arguments", "call_id", "name"]
    assert call["id"] == f"fc_{call['call_id']}"
    assert (call["name"], call["arguments"]) == ("now", '{"a": 1}')
    assert answer["usage"]["input_tokens_details"] == {"cached_tokens": 0}


async def test_the_events_of_a_response_come_in_llama_servers_order() -> None:
    told = events(await thinker().post(RESPONSES, asked(tools=[FUNCTION], stream=True)))
    assert [one["type"].removeprefix("response.") for one in told] == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_text.delta"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        "output_item.done",
        *("output_text.done", "content_part.done", "output_item.done"),
        "output_item.done",
        "completed",
    ]
    opening, *_, end = told
    assert list(opening["response"].items())[1:] == [("object", "response"), ("status", "in_progress")]
    assert list(end) == ["type", "response", "timings"]
    assert list(end["response"]) == ["id", "object", "created_at", "status", "model", "output", "usage"]
    assert list(end["response"]["output"][1]) == ["type", "status", "id", "content", "role"]
    assert [list(one) for one in told if one["type"].endswith("output_text.delta")] == [["type", "item_id", "delta"]]
    added = [one["item"] for one in told if one["type"].endswith("item.added")]
    done = [one["item"] for one in told if one["type"].endswith("item.done")]
    assert [item["id"] for item in added] == [item["id"] for item in done]
    assert done == end["response"]["output"]
    assert "".join(one["delta"] for one in told if "arguments" in one["type"]) == done[2]["arguments"]


async def test_a_response_without_text_has_no_message() -> None:
    assert (await thinker("").post(RESPONSES, asked())).json()["output"] == []


async def test_a_silent_response_repeats_that_it_is_in_progress() -> None:
    def script(request: Request) -> Iterable[Event | float]:
        yield progress(request)
        yield progress(request, 3)
        yield 1.3
        yield Tokens((piece("Hi", 1),))
        yield finished(request, "Hi")

    text = (await bench(script).post(RESPONSES, asked(stream=True, sse_ping_interval=1))).text
    assert text.count("event: response.created") == 1
    assert text.count("event: response.in_progress") == 2
    assert text.index(":\n\nevent: response.in_progress") < text.index("output_item.added")


async def test_a_response_may_tell_its_progress_and_the_time_of_each_token() -> None:
    def script(request: Request) -> Iterable[Event]:
        yield progress(request)
        yield progress(request, 3)
        yield Tokens((piece("Hi", 1), piece("", 2), piece(" there", 3)))
        yield finished(request, "Hi there")

    wanted = {"return_progress": True, "timings_per_token": True}
    told = events(await bench(script).post(RESPONSES, asked(stream=True, **wanted)))
    growing = [one for one in told if one["type"] == "response.in_progress"]
    assert [one["prompt_progress"]["processed"] for one in growing] == [0, 3]
    assert list(growing[1]) == ["type", "response", "timings", "prompt_progress"]
    deltas = [one for one in told if one["type"] == "response.output_text.delta"]
    assert [one["timings"]["predicted_n"] for one in deltas] == [1, 3]
    assert ["timings" in one for one in told if "added" in one["type"]] == [False, False]


async def test_a_fault_ends_a_response_with_the_plain_error() -> None:
    def script(request: Request) -> Iterable[Event]:
        yield progress(request)
        yield Failed(ServerFault("broken"))

    text = (await bench(script).post(RESPONSES, asked(stream=True))).text
    assert text.endswith('data: {"error":{"code":500,"message":"broken","type":"server_error"}}\n\n')


async def test_a_responses_body_is_a_chat_body() -> None:
    made = bench(says("a"))
    await made.post(RESPONSES, asked(instructions="Be kind", max_output_tokens=3, temperature=0, n=2, seed=4))
    (request,) = made.scheduler.requests
    assert (request.limits.predict, request.sampling.temperature, request.sampling.seed) == (3, 0, 4)
    assert "Be kind" in heard(made)


def test_items_become_messages() -> None:
    chat = responses.as_chat(
        asked(
            input=[
                {"role": "developer", "content": "Be kind", "type": "message"},
                {"role": "user", "content": [
                    {"type": "input_text", "text": "Hi"}, {"type": "input_image", "image_url": "u"}]},
                {"type": "reasoning", "summary": [], "content": [{"text": "hm", "type": "reasoning_text"}]},
                {"type": "message", "role": "assistant", "status": "completed", "content": [
                    {"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]},
                {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "ok"},
                {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "t"}]},
                {"role": "assistant", "content": "c"},
            ],
            reasoning={"effort": "low"},
            tools=[FUNCTION, {"type": "web_search"}],
            text={"format": {"type": "json_schema", "name": "n", "schema": {}}},
        )
    )  # fmt: skip
    text = {"type": "text"}
    function = {"arguments": "{}", "name": "f"}
    assert chat["messages"] == [
        {"role": "developer", "content": [text | {"text": "Be kind"}]},
        {"role": "user", "content": [text | {"text": "Hi"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        {
            "role": "assistant",
            "content": [text | {"text": "a"}, text | {"text": "b"}],
            "reasoning_content": "hm",
            "tool_calls": [{"function": function, "id": "1", "type": "function"}],
        },
        {"role": "tool", "content": "ok", "tool_call_id": "1"},
        {"role": "tool", "content": [text | {"text": "t"}], "tool_call_id": "2"},
        {"role": "assistant", "content": [text | {"text": "c"}]},
    ]
    assert chat["reasoning_effort"] == "low"
    assert chat["tools"] == [
        {"type": "function", "function": {"name": "now", "parameters": FUNCTION["parameters"], "strict": True}}
    ]
    assert chat["response_format"] == {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}


TYPES = "'type' must be one of 'input_text', 'input_image', or 'input_file'"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"input": None}, "'input' must be a string or array of objects"),
        ({"input": 5}, "'input' must be a string or array of objects"),
        ({"previous_response_id": "resp_1"}, "llama.cpp does not support 'previous_response_id'."),
        ({"input": [5]}, "Cannot determine type of 'item'"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "Cannot determine type of 'item'"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "'Input text' requires 'text'"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "'image_url' is required"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            "'input_file' is not supported by llamacpp at this moment",
        ),
        ({"input": [{"role": "user", "content": [{"type": "sound"}]}]}, TYPES),
        ({"input": [{"role": "assistant", "content": [{"type": "output_text"}]}]}, "'Output text' requires 'text'"),
        ({"input": [{"role": "assistant", "content": [{"type": "refusal"}]}]}, "'Refusal' requires 'refusal'"),
        (
            {"input": [{"role": "assistant", "content": [{"type": "sound"}]}]},
            "'type' must be one of 'output_text' or 'refusal'",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image"}]}]},
            "Output of tool call should be 'Input text'",
        ),
        ({"input": [{"type": "function_call_output", "call_id": "1"}]}, "Cannot determine type of 'item'"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "item['content'] is not an array"),
        ({"input": [{"type": "reasoning", "summary": [], "content": []}]}, "item['content'] is empty"),
        (
            {"input": [{"type": "reasoning", "summary": [], "content": [{}]}]},
            "item['content']['text'] is not a string",
        ),
        ({"tools": {}}, "'tools' must be an array of objects"),
    ],
)
async def test_what_a_response_cannot_be_made_of(fields: dict[str, Any], said: str) -> None:
    answer = await bench().post(RESPONSES, asked(**fields))
    assert (answer.status_code, message(answer)) == (400, said)


async def test_an_input_is_required() -> None:
    answer = await bench().post("/responses", {})
    assert (answer.status_code, message(answer)) == (400, "'input' is required")


async def test_the_tokens_of_an_input_are_counted() -> None:
    for path in ("/responses/input_tokens", "/v1/responses/input_tokens"):
        answer = await thinker().post(path, asked())
        assert answer.json() == {"input_tokens": len("<user>Hi<assistant>"), "object": "response.input_tokens"}


# --- messages


async def test_a_message_has_a_block_for_thought_text_and_call() -> None:
    answer = (await thinker().post(MESSAGES, sent(tools=[TOOL]))).json()
    thought, text, call = answer["content"]
    assert thought == {"type": "thinking", "thinking": "hm", "signature": ""}
    assert text == {"type": "text", "text": "Yes"}
    assert call == {"type": "tool_use", "id": call["id"], "name": "now", "input": {"a": 1}}
    assert answer["stop_reason"] == "tool_use"
    assert list(answer["usage"]) == ["cache_read_input_tokens", "input_tokens", "output_tokens"]


async def test_blocks_of_a_message_follow_each_other() -> None:
    told = events(await thinker().post(MESSAGES, sent(tools=[TOOL], stream=True)))
    shape = [(one["type"].removeprefix("content_"), one.get("index")) for one in told]
    block = ["block_start", "block_delta"]
    assert shape == [
        ("message_start", None),
        *((name, 0) for name in (*block, "block_delta", "block_stop")),
        *((name, 1) for name in (*block, "block_stop")),
        *((name, 2) for name in (*block, "block_delta", "block_stop")),
        ("message_delta", None),
        ("message_stop", None),
    ]
    starts = [one["content_block"]["type"] for one in told if one["type"] == "content_block_start"]
    assert starts == ["thinking", "text", "tool_use"]
    deltas = [one["delta"] for one in told if one["type"] == "content_block_delta"]
    assert [one["type"] for one in deltas] == [
        *("thinking_delta", "signature_delta", "text_delta", "input_json_delta", "input_json_delta")
    ]  # fmt: skip
    assert told[0]["message"]["usage"]["output_tokens"] == 0
    assert told[-2] == {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 6},
    }
    off = thinker("Yes")
    await off.post(MESSAGES, sent(thinking={"type": "disabled"}))
    assert heard(off).endswith("<think></think>")


async def test_two_calls_are_two_blocks() -> None:
    two = '<tool_call>{"name": "now"}</tool_call>' * 2
    template = ChatTemplate(QWEN.source + "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name }}"
                            "{% endfor %}{% endfor %}")  # fmt: skip
    made = bench(says(two, stop=StopType.EOS), template=template)
    told = events(await made.post(MESSAGES, sent(tools=[TOOL], stream=True)))
    assert [one["index"] for one in told if one["type"] == "content_block_start"] == [0, 1]
    alone = sent(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert len((await made.post(MESSAGES, alone)).json()["content"]) == 1


async def test_a_call_may_come_in_two_pieces_and_the_prompt_in_several() -> None:
    def script(request: Request) -> Iterable[Event]:
        yield progress(request)
        yield progress(request, 3)
        for count, text in enumerate(("<tool_call><function=now>", "<parameter=a>", "1</parameter></function>"), 1):
            yield Tokens((piece(text, count),))
        yield finished(request, "", stop=StopType.EOS)

    made = bench(script, template=ChatTemplate(QWEN.source + "{# <function= #}"))
    told = events(await made.post(MESSAGES, sent(tools=[TOOL], stream=True)))
    assert [one["type"] for one in told].count("message_start") == 1
    assert "".join(one["delta"]["partial_json"] for one in told if one["type"] == "content_block_delta") == '{"a": 1}'
    told = events(await made.post(RESPONSES, asked(tools=[FUNCTION], stream=True)))
    assert "".join(one["delta"] for one in told if one["type"].endswith("arguments.delta")) == '{"a": 1}'


async def test_a_stop_sequence_is_named() -> None:
    made = thinker("Yes", stop=StopType.WORD, stopping_word="END")
    answer = (await made.post(MESSAGES, sent(stop_sequences=["END"]))).json()
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", "END")
    assert made.scheduler.requests[0].limits.stop == ("END",)


async def test_a_cut_call_has_no_input() -> None:
    made = thinker('<tool_call>{"name": "now", "arguments": {"a', stop=StopType.LIMIT)
    answer = (await made.post(MESSAGES, sent(tools=[TOOL]))).json()
    assert (answer["content"][0]["input"], answer["stop_reason"]) == ({}, "max_tokens")


async def test_a_fault_in_a_stream_is_an_event_with_the_bare_error() -> None:
    def script(request: Request) -> Iterable[Event]:
        yield progress(request)
        yield Failed(ServerFault("broken"))

    text = (await bench(script).post(MESSAGES, sent(stream=True))).text
    assert text.endswith('event: error\ndata: {"code":500,"message":"broken","type":"server_error"}\n\n')


async def test_a_message_needs_no_bound_and_is_told_nothing_else() -> None:
    made = bench(says("a"))
    await made.post(MESSAGES, {"messages": [USER], "top_k": 3, "n_predict": 5, "metadata": {"user_id": "u"}, "seed": 9})
    (request,) = made.scheduler.requests
    assert (request.limits.predict, request.sampling.top_k) == (4096, 3)
    assert request.sampling.seed != 9


async def test_thinking_comes_with_a_budget() -> None:
    made = thinker()
    await made.post(MESSAGES, sent(thinking={"type": "enabled", "budget_tokens": 1024}))
    await made.post(MESSAGES, sent(thinking={"type": "enabled"}))
    assert [request.thought.budget for request in made.scheduler.requests if request.thought] == [1024, 10_000]


def test_blocks_become_messages() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    chat = anthropic.as_chat(
        {
            "system": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind"}, {"type": "x"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi"}, image]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": ""},
                    {"type": "tool_use", "id": "1", "name": "now", "input": {"a": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "ok"}]},
                    {"type": "tool_result", "tool_use_id": "2", "content": "fine"},
                    {"type": "tool_result", "tool_use_id": "3", "content": [
                        {"type": "image", "source": {"type": "url", "url": "u"}}]},
                    {"type": "tool_result", "tool_use_id": "4"},
                    {"type": "text", "text": "So?"}]},
                {"role": "assistant"},
                {"role": "user", "content": []},
            ],
            "tools": [TOOL],
            "tool_choice": {"type": "any"},
        }
    )  # fmt: skip
    url = "data:image/png;base64,AA"
    call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": '{"a":1}'}}
    assert chat["messages"] == [
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": url}}]},
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "user", "content": [{"type": "text", "text": "So?"}]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
        {"role": "tool", "tool_call_id": "2", "content": "fine"},
        {"role": "tool", "tool_call_id": "3", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "tool", "tool_call_id": "4", "content": ""},
    ]
    assert chat["tool_choice"] == "required"
    assert chat["tools"] == [
        {"type": "function", "function": {"name": "now", "description": "the time", "parameters": TOOL["input_schema"]}}
    ]
    assert anthropic.as_chat(sent(tool_choice={"type": "none"}))["tool_choice"] == "none"


@pytest.mark.parametrize("cch", ["a5145", "9", "0123456789"])
def test_the_billing_stamp_does_not_change_the_prompt(cch: str) -> None:
    text = "x-anthropic-billing-header: cc_version=2.1; cch={};You are\ncch=12345;"
    assert anthropic.unstamped(text.format(cch)) == text.format("fffff")
    for other in (f"See cch={cch}; {text}", "x-anthropic-billing-header: none", ""):
        assert anthropic.unstamped(other) == other


async def test_turns_that_differ_in_their_billing_stamp_have_one_prompt() -> None:
    made = bench(says("a"))
    for cch in ("a5145", "0f1e2"):
        await made.post(MESSAGES, sent(system=f"x-anthropic-billing-header: cc_version=2; cch={cch};You are"))
    assert heard(made, 0) == heard(made, 1)


async def test_messages_are_required() -> None:
    answer = await bench().post(MESSAGES, {"max_tokens": 3})
    assert (answer.status_code, message(answer)) == (500, "'messages' is required")
    for wrong in ("Hi", [5]):
        assert (await bench().post(MESSAGES, {"messages": wrong})).status_code == 400


async def test_the_tokens_of_a_message_are_counted() -> None:
    answer = await thinker().post("/v1/messages/count_tokens", sent())
    assert answer.json() == {"input_tokens": len("<user>Hi<assistant>")}


async def test_a_client_that_leaves_is_not_waited_for() -> None:
    def script(request: Request) -> Iterable[Event | float]:
        yield progress(request)
        yield 5

    made = bench(script)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.post(MESSAGES, sent()), 0.05)
    assert made.scheduler.cancelled
