"""Chat bodies: messages, tools, formats, prefill, and what is refused with which words."""

from typing import Any

import pytest

from routes.fakes import Bench, ByteTokenizer, FakeScheduler, bench, frames, message, says
from stoker.routes.service import Defaults
from stoker.text.template import ChatTemplate

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
TOOL_TEMPLATE = ChatTemplate(
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if enable_thinking is defined %}[{{ enable_thinking }}]{% endif %}{{ reasoning_effort }}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages or (USER,)), **fields}


async def prompt(made: Bench, *messages: Any, **fields: Any) -> str:
    answer = await made.post("/apply-template", body(*messages, **fields))
    assert answer.status_code == 200, answer.text
    return answer.json()["prompt"]


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({}, 400, "'messages' is required"),
        ([], 400, "'messages' is required"),
        ({"messages": None}, 400, "'messages' is required"),
        ({"messages": "Hi"}, 400, "Expected 'messages' to be an array"),
        (body("Hi"), 400, "Expected every message to be an object"),
        (body({"content": "a"}), 400, "Missing 'role' in message"),
        (body({"role": "user"}), 400, "All non-assistant messages must contain 'content'"),
        (
            body({"role": "assistant"}, USER),
            400,
            "Assistant message must contain either 'content' or 'tool_calls'!",
        ),
        (body({"role": "user", "content": 5}), 400, "Expected 'content' to be a string or an array"),
        (body({"role": "user", "content": [5]}), 400, "unsupported content[].type"),
        (body({"role": "user", "content": [{"type": "x"}]}), 400, "unsupported content[].type"),
        (body({"role": "user", "content": [{"type": []}]}), 400, "unsupported content[].type"),
        (
            body({"role": "user", "content": [{"type": "text"}]}),
            400,
            "Expected 'text' of a content part to be a string",
        ),
        (
            body({"role": "user", "content": [{"type": "input_audio"}]}),
            500,
            "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        ),
        (body(tools={}), 400, "Expected 'tools' to be an array, got object"),
        (body(tools=[1]), 400, "Expected every tool to be an object"),
        (body(tool_choice="sometimes"), 400, "Invalid tool_choice: sometimes"),
        (body(tools=[TOOL], grammar="x"), 400, "Cannot use custom grammar constraints with tools."),
        (body(json_schema={}, grammar="x"), 500, "Cannot use both json_schema and grammar"),
        (body(grammar="x"), 400, "Failed to initialize samplers: failed to parse grammar"),
        (
            body(response_format={"type": "json_object", "schema": {"enum": []}}),
            400,
            "JSON schema conversion failed:\nUnsatisfiable schema: anyOf is empty",
        ),
        (
            body(response_format={"type": "sound"}),
            400,
            'response_format type must be one of "text" or "json_object", but got: sound',
        ),
        (body(reasoning_format="x"), 500, "Unknown reasoning format: x"),
        (
            body(thinking_budget_tokens=-2),
            400,
            "Field 'reasoning_budget_tokens': Value must be between -1 <= value <= 2147483647, but got -2",
        ),
        (body(top_logprobs=2), 400, "top_logprobs requires logprobs to be set to true"),
        (
            body(tools=[TOOL], logprobs=True, stream=True),
            400,
            "logprobs is not supported with tools + stream",
        ),
        (
            body(chat_template_kwargs={"enable_thinking": "no"}),
            400,
            'invalid type for "enable_thinking" (expected boolean, got string)',
        ),
        (
            body(USER, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}),
            400,
            "Cannot have 2 or more assistant messages at the end of the list.",
        ),
        (
            body(add_generation_prompt=True, continue_final_message=True),
            400,
            "Cannot set both add_generation_prompt and continue_final_message to true.",
        ),
        (
            body(continue_final_message=True),
            400,
            "continue_final_message needs an assistant message at the end of the list.",
        ),
        (
            body(USER, {"role": "assistant", "content": ""}, continue_final_message="reasoning_content"),
            400,
            "continue_final_message: the chat template has no reasoning that could go on.",
        ),
    ],
)
async def test_refusals(sent: Any, status: int, said: str) -> None:
    answer = await bench().post(CHAT, sent)
    assert (answer.status_code, message(answer)) == (status, said)


async def test_harmless_fields_pass() -> None:
    fields = {"logprobs": False, "response_format": {"type": "text"}, "tool_choice": {"type": "function"}}
    assert (await bench().post(CHAT, body(**fields, reasoning_format=None))).status_code == 200
    assert (await bench().post(CHAT, body(response_format={"type": "json_object"}))).status_code == 200


async def test_n_predict_beats_max_tokens_and_logprobs_default_to_twenty() -> None:
    made = bench()
    await made.post(CHAT, body(n_predict=3, max_tokens=9, logprobs=True))
    await made.post(CHAT, body(max_completion_tokens=4, logprobs=True, top_logprobs=2))
    assert [(one.limits.predict, one.probs) for one in made.scheduler.requests] == [(3, 20), (4, 2)]


async def test_settings_tell_the_chat_format_and_the_generation_prompt() -> None:
    made = bench()
    await made.post(CHAT, body())
    report = made.scheduler.requests[0].report
    assert (report["chat_format"], report["generation_prompt"]) == ("peg-native", "<|im_start|>assistant\n")


async def test_parts_of_a_message_that_is_continued_are_paragraphs() -> None:
    parts = [{"type": "text", "text": "It"}, {"type": "text", "text": "is"}]
    assert (await prompt(bench(), USER, {"role": "assistant", "content": parts})).endswith("It\n\nis")


async def test_a_final_assistant_message_is_continued_and_part_of_the_answer() -> None:
    made = bench(says(" blue"))
    sent = body(USER, {"role": "assistant", "content": [{"type": "text", "text": "It is"}]})
    answer = await made.post(CHAT, sent)
    assert answer.json()["choices"][0]["message"]["content"] == "It is blue"
    assert bytes(id for id in made.scheduler.requests[0].prompt if id < 256).endswith(b"assistant\nIt is")
    deltas = [frame["choices"][0]["delta"] for frame in frames(await made.post(CHAT, sent | {"stream": True}))[:-1]]
    assert [delta.get("content") for delta in deltas] == [None, " blue", None]
    echoed = frames(await made.post(CHAT, sent | {"stream": True, "echo": True}))[:-1]
    assert [frame["choices"][0]["delta"].get("content") for frame in echoed] == [None, "It is", " blue", None]


async def test_continuing_can_be_refused_by_the_server_or_the_request() -> None:
    last = {"role": "assistant", "content": "It is"}
    closed = "<|im_start|>assistant\nIt is<|im_end|>\n<|im_start|>assistant\n"
    assert (await prompt(bench(), USER, last)).endswith("<|im_start|>assistant\nIt is")
    assert (await prompt(bench(), USER, last, continue_final_message=False)).endswith(closed)
    off = bench(defaults=Defaults(prefill_assistant=False))
    assert (await prompt(off, USER, last)).endswith(closed)
    assert (await prompt(off, USER, last, continue_final_message=True)).endswith("<|im_start|>assistant\nIt is")
    called = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    assert (await prompt(bench(), USER, called)).endswith("<|im_end|>\n<|im_start|>assistant\n")


async def test_the_generation_prompt_can_be_left_out() -> None:
    assert (await prompt(bench(), add_generation_prompt=False)).endswith("Hi<|im_end|>\n")


async def test_variables_of_the_template_come_from_the_server_and_the_request() -> None:
    made = bench(template=TOOL_TEMPLATE, defaults=Defaults(template_kwargs={"enable_thinking": True}))
    assert await prompt(made) == "<user>Hi[True]<assistant>"
    assert await prompt(made, chat_template_kwargs={"enable_thinking": False}) == "<user>Hi[False]<assistant>"
    assert await prompt(made, reasoning_effort="high") == "<user>Hi[True]high<assistant>"
    plain = bench(template=TOOL_TEMPLATE)
    assert await prompt(plain, reasoning_effort="none") == "<user>Hi[False]<assistant>"
    assert await prompt(plain, chat_template_kwargs={"messages": 1, "self": 2, "tools": 3}) == "<user>Hi<assistant>"


async def test_tools_reach_a_template_that_shows_them_unless_the_choice_is_none() -> None:
    made = bench(template=TOOL_TEMPLATE)
    assert '"name": "f"' in await prompt(made, tools=[TOOL])
    assert '"name": "f"' not in await prompt(made, tools=[TOOL], tool_choice="none")
    assert '"name": "f"' not in await prompt(bench(), tools=[TOOL])


async def test_a_required_tool_is_imposed_where_the_template_knows_tools() -> None:
    sent = body(tools=[TOOL], tool_choice="required")
    for made, imposed in ((bench(), False), (bench(template=TOOL_TEMPLATE), True)):
        assert (await made.post(CHAT, sent)).status_code == 200
        assert bool(made.scheduler.requests[0].grammar) is imposed


async def test_the_template_may_refuse_in_its_own_words() -> None:
    strict = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    answer = await bench(template=strict).post(CHAT, body())
    assert (answer.status_code, message(answer)) == (400, "chat template: roles must alternate")


async def test_a_begin_token_is_not_doubled() -> None:
    template = ChatTemplate("{{ bos_token }}{{ messages[0].content }}", "<|im_start|>")
    made = Bench(FakeScheduler(), template=template, tokenizer=ByteTokenizer(adds_bos=True))
    await made.post(CHAT, body())
    assert made.scheduler.requests[0].prompt == (257, *b"Hi")
    assert await prompt(Bench(template=template)) == "<|im_start|>Hi"


async def test_tokens_of_a_chat_are_counted() -> None:
    answer = await bench(template=TOOL_TEMPLATE).post("/chat/completions/input_tokens", body())
    assert answer.json() == {"input_tokens": len("<user>Hi<assistant>"), "object": "response.input_tokens"}


async def test_without_jinja_tools_are_refused_as_upstream_refuses_them() -> None:
    made = bench(says("Hi"), defaults=Defaults(jinja=False))
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    for extra, name in (({"tools": [tool]}, "tools"), ({"tool_choice": "none"}, "tool_choice")):
        answer = await made.post("/v1/chat/completions", {**body, **extra})
        assert (answer.status_code, message(answer)) == (500, f"{name} param requires --jinja flag")
    assert (await made.post("/v1/chat/completions", body)).status_code == 200
