"""Chats whose template thinks and calls tools: what is sent to the model, and how its answer is told."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from routes.fakes import Bench, ByteTokenizer, FakeScheduler, bench, finished, frames, message, piece, progress, says
from stoker.core.events import Event, StopType, Tokens
from stoker.core.request import Request, ThoughtLimit, TriggerKind
from stoker.core.work import TokenProbs
from stoker.routes.service import Defaults
from stoker.text.template import ChatTemplate

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Hi"}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
QWEN = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools> answer with <tool_call></tool_call>\n{% endif %}"
    "{% for m in messages %}<{{ m.role }}>"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
    "{% for call in m.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>\n{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
R1 = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant><think>\n{% endif %}"
)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def thinker(*texts: str, template: str = QWEN, changes: dict[str, Any] | None = None, **ends: Any) -> Bench:
    ends = {"stop": StopType.EOS} | ends
    return bench(says(*texts, **ends), template=ChatTemplate(template), **(changes or {}))


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages or (USER,)), **fields}


async def choice(made: Bench, **fields: Any) -> Any:
    answer = await made.post(CHAT, body(**fields))
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


async def deltas(made: Bench, **fields: Any) -> tuple[list[Any], str]:
    """The deltas between role and end, and the finish reason."""
    first, *rest, done = frames(await made.post(CHAT, body(stream=True, **fields)))
    assert (first["choices"][0]["delta"], done) == ({"role": "assistant", "content": None}, "[DONE]")
    assert rest[-1]["choices"][0]["delta"] == {}
    return [frame["choices"][0]["delta"] for frame in rest[:-1]], rest[-1]["choices"][0]["finish_reason"]


async def rendered(made: Bench, *messages: Any, **fields: Any) -> str:
    answer = await made.post("/apply-template", body(*messages, **fields))
    assert answer.status_code == 200, answer.text
    return answer.json()["prompt"]


async def test_a_thought_has_its_own_key() -> None:
    said = await choice(thinker("<think>", "\nhm", "\n</think>", "\n\nYes"))
    assert list(said["message"].items()) == [("role", "assistant"), ("content", "Yes"), ("reasoning_content", "hm")]
    assert said["finish_reason"] == "stop"


async def test_a_thought_is_streamed_under_its_own_key() -> None:
    told, reason = await deltas(thinker("<thi", "nk>", "\nh", "m", "\n</think>", "\n\nYes", "!"))
    assert told == [{"reasoning_content": "h"}, {"reasoning_content": "m"}, {"content": "Yes"}, {"content": "!"}]
    assert reason == "stop"


async def test_an_answer_that_is_cut_inside_its_thought_is_all_thought() -> None:
    said = await choice(thinker("hm, ", "so", template=R1, stop=StopType.LIMIT))
    assert said["message"] == {"role": "assistant", "content": "", "reasoning_content": "hm, so"}
    assert said["finish_reason"] == "length"


async def test_thoughts_can_stay_in_the_content() -> None:
    texts = ("<think>", "hm", "</think>", "Yes")
    for fields in ({"reasoning_format": "none"}, {"reasoning_format": "none", "stream": False}):
        assert (await choice(thinker(*texts), **fields))["message"] == {
            "role": "assistant",
            "content": "<think>hm</think>Yes",
        }
    off = thinker(*texts, CALL, changes={"defaults": Defaults(chat_parsing=False)})
    assert (await choice(off, tools=[TOOL]))["message"]["content"] == f"<think>hm</think>Yes{CALL}"


async def test_deepseek_legacy_leaves_only_streamed_thoughts_in_the_content() -> None:
    made = thinker("hm", "</think>", "Yes", template=R1)
    assert (await choice(made, reasoning_format="deepseek-legacy"))["message"]["reasoning_content"] == "hm"
    told, _ = await deltas(made, reasoning_format="deepseek-legacy")
    assert "".join(delta["content"] for delta in told) == "<think>\nhm</think>Yes"
    reports = [request.report["reasoning_in_content"] for request in made.scheduler.requests]
    assert reports == [False, True]


async def test_a_call_is_a_tool_call_and_the_reason_to_end() -> None:
    said = await choice(thinker("<think>hm</think>", "Looking.\n", CALL), tools=[TOOL])
    (call,) = said["message"].pop("tool_calls")
    assert said["message"] == {"role": "assistant", "content": "Looking.", "reasoning_content": "hm"}
    assert list(call) == ["type", "function", "id"]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert len(call["id"]) == 32
    assert said["finish_reason"] == "tool_calls"


async def test_a_call_is_streamed_as_it_is_written() -> None:
    texts = (
        "Look",
        "ing.",
        "\n<tool",
        '_call>{"name": "weather",',
        ' "arguments": {"ci',
        'ty": "Paris"}',
        "}</tool_call>",
    )
    told, reason = await deltas(thinker(*texts), tools=[TOOL])
    id = told[2]["tool_calls"][0]["id"]
    assert told == [
        {"content": "Look"},
        {"content": "ing."},
        {
            "tool_calls": [
                {"index": 0, "id": id, "type": "function", "function": {"name": "weather", "arguments": '{"ci'}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": 'ty": "Paris"}'}}]},
    ]
    assert reason == "tool_calls"


async def test_an_answer_that_is_cut_in_a_call_ends_for_its_length() -> None:
    said = await choice(thinker(CALL[:50], stop=StopType.LIMIT), tools=[TOOL])
    assert said["finish_reason"] == "length"
    assert said["message"]["tool_calls"][0]["function"]["arguments"] == CALL[:50].partition('"arguments": ')[2]


async def test_calls_are_not_looked_for_without_tools_or_where_the_choice_is_none() -> None:
    for fields in ({}, {"tools": [TOOL], "tool_choice": "none"}):
        assert (await choice(thinker(CALL), **fields))["message"] == {"role": "assistant", "content": CALL}


async def test_only_the_first_call_counts_where_calls_may_not_be_parallel() -> None:
    made = thinker(CALL, "\n", CALL, "more")
    assert len((await choice(made, tools=[TOOL]))["message"]["tool_calls"]) == 2
    alone = await choice(made, tools=[TOOL], parallel_tool_calls=False)
    assert len(alone["message"]["tool_calls"]) == 1
    assert alone["message"]["content"] == ""


async def test_a_required_call_becomes_a_grammar() -> None:
    made = thinker(CALL)
    await made.post(CHAT, body(tools=[TOOL], tool_choice="required"))
    grammar = made.scheduler.requests[0].grammar
    assert "<tool_call>" in grammar.text
    assert '"const": "weather"' in grammar.text
    assert not grammar.lazy
    inside = thinker(
        "x", template=R1 + "{{ tools | tojson }}<tool_call>{% if add_generation_prompt %}<think>{% endif %}"
    )
    await inside.post(CHAT, body(tools=[TOOL], tool_choice="required"))
    grammar = inside.scheduler.requests[0].grammar
    assert grammar.lazy
    assert [(trigger.kind, trigger.text) for trigger in grammar.triggers] == [(TriggerKind.WORD, "</think>")]


async def test_a_required_call_that_is_no_json_is_not_built() -> None:
    made = thinker("x", template=QWEN + "{# <function= #}")
    answer = await made.post(CHAT, body(tools=[TOOL], tool_choice="required"))
    assert (answer.status_code, message(answer)) == (501, "Field 'tool_choice': not built yet")


async def test_tags_that_are_control_tokens_show_in_the_text() -> None:
    tokenizer = ByteTokenizer(
        specials=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>")
    )
    made = Bench(FakeScheduler(says("a")), template=ChatTemplate(QWEN), tokenizer=tokenizer)
    await made.post(CHAT, body(tools=[TOOL]))
    await made.post(CHAT, body(preserved_tokens=["<|im_start|>"]))
    assert [sorted(request.preserved) for request in made.scheduler.requests] == [[259, 260, 261], [257, 259, 260]]
    assert made.scheduler.requests[0].report["preserved_tokens"] == [259, 260, 261]


async def test_thinking_is_on_unless_somebody_says_no() -> None:
    closed = "<assistant>\n<think>\n\n</think>\n\n"
    assert (await rendered(thinker())).endswith("<assistant>\n")
    assert (await rendered(thinker(), reasoning_effort="none")).endswith(closed)
    assert (await rendered(thinker(), chat_template_kwargs={"enable_thinking": False})).endswith(closed)
    server = thinker(changes={"defaults": Defaults(template_kwargs={"enable_thinking": False})})
    assert (await rendered(server)).endswith(closed)
    assert (await rendered(server, chat_template_kwargs={"enable_thinking": True})).endswith("<assistant>\n")


async def test_a_template_that_always_thinks_is_told_that_the_thought_is_over() -> None:
    made = thinker("51", template=R1)
    assert (await rendered(made)).endswith("<assistant><think>\n")
    assert (await rendered(made, reasoning_effort="none")).endswith("<assistant><think>\n\n</think>\n\n")
    assert (await choice(made, reasoning_effort="none"))["message"] == {"role": "assistant", "content": "51"}
    older = thinker(template="<think></think>{% if thinking %}on{% endif %}")
    assert (await rendered(older)) == "<think></think>on"
    assert (await rendered(older, reasoning_effort="none")) == "<think></think>"


async def test_a_start_of_the_answer_may_hold_a_thought() -> None:
    last = {"role": "assistant", "content": "Ye", "reasoning_content": "hm"}
    made = thinker("s.")
    assert (await rendered(made, USER, last)).endswith("<assistant>\n<think>\nhm\n</think>\n\nYe")
    answer = await made.post(CHAT, body(USER, last))
    assert answer.json()["choices"][0]["message"] == {"role": "assistant", "content": "Yes.", "reasoning_content": "hm"}
    thoughtless = {"role": "assistant", "content": "<think>h"}
    assert (await rendered(made, USER, thoughtless)).endswith("<assistant>\n<think>h")
    said = (await thinker("m</think>", "Yes").post(CHAT, body(USER, thoughtless))).json()["choices"][0]["message"]
    assert (said["content"], said["reasoning_content"]) == ("<think>hYes", "m")
    always = thinker(template=R1)
    assert (await rendered(always, USER, {"role": "assistant", "content": "Ye"})).endswith("<think>\n\n</think>\n\nYe")


async def test_a_thought_can_be_continued() -> None:
    last = {"role": "assistant", "content": "", "reasoning_content": "h"}
    sent = body(USER, last, continue_final_message="reasoning_content")
    for template in (QWEN, R1):
        made = thinker("m</think>Yes", template=template)
        assert (await made.post("/apply-template", sent)).json()["prompt"].endswith("<think>\nh")
        said = (await made.post(CHAT, sent)).json()["choices"][0]["message"]
        assert said == {"role": "assistant", "content": "Yes", "reasoning_content": "hm"}


async def test_a_budget_comes_with_the_words_that_end_a_thought() -> None:
    made = thinker("a")
    await made.post(CHAT, body(thinking_budget_tokens=16, tools=[TOOL], reasoning_budget_message="Enough."))
    assert made.scheduler.requests[0].thought == ThoughtLimit(
        "<think>", ("</think>", "<tool_call>"), tuple(b"Enough.</think>"), 16
    )
    always = thinker("a", template=R1, changes={"defaults": Defaults(reasoning_budget=4)})
    await always.post(CHAT, body())
    assert always.scheduler.requests[0].thought == ThoughtLimit("<think>", ("</think>",), tuple(b"</think>"), 4, True)
    await always.post(CHAT, body(reasoning_budget_tokens=0, reasoning_effort="none"))
    limit = always.scheduler.requests[1].thought
    assert limit is not None
    assert (limit.budget, limit.inside) == (0, False)


async def test_a_model_without_thoughts_has_nothing_to_bound() -> None:
    made = bench(says("a"))
    assert (await made.post(CHAT, body(thinking_budget_tokens=0))).status_code == 200
    assert made.scheduler.requests[0].thought is None


async def test_a_native_prompt_may_bring_its_own_tags() -> None:
    made = bench(says("a"))
    sent = {"prompt": "a", "reasoning_budget_tokens": 3, "reasoning_budget_start_tag": "<t>"}
    await made.post("/completion", sent | {"reasoning_budget_end_tags": ["</t>", "<c>"]})
    await made.post("/completion", sent | {"reasoning_budget_end_tag": "</t>"})
    await made.post("/completion", sent)
    end = tuple(b"</t>")
    assert [request.thought for request in made.scheduler.requests] == [
        ThoughtLimit("<t>", ("</t>", "<c>"), end, 3),
        ThoughtLimit("<t>", ("</t>",), end, 3),
        None,
    ]


async def test_a_running_thought_can_be_ended_by_its_completions_id() -> None:
    opened, go = asyncio.Event(), asyncio.Event()

    def script(request: Request) -> Iterable[Event | asyncio.Event]:
        yield progress(request)
        yield Tokens((piece("<think>", 1),))
        opened.set()
        yield go
        yield finished(request, "<think>", stop=StopType.EOS)

    made = bench(script, template=ChatTemplate(QWEN))

    async def control(**sent: Any) -> Any:
        return (await made.post(f"{CHAT}/control", sent)).json()

    running = asyncio.create_task(made.post(CHAT, body(stream=True, reasoning_control=True)))
    await opened.wait()
    (id,) = made.service.controls._requests
    assert id.startswith("chatcmpl-")
    assert await control(id=id, action="reasoning_end") == {"success": True}
    assert made.scheduler.ended == [made.scheduler.requests[0].id]
    made.scheduler.thinks = False
    assert await control(id=id, action="reasoning_end") == {
        "success": False,
        "message": "the completion is not reasoning",
    }
    go.set()
    assert json.loads((await running).text.split("\n\n")[0].removeprefix("data: "))["id"] == id
    assert (await control(id=id, action="reasoning_end"))["success"] is False
    for sent, said in (({"action": "reasoning_end"}, "missing completion id"), ({"id": id}, "unknown control action")):
        answer = await made.post(f"{CHAT}/control", sent)
        assert (answer.status_code, message(answer)) == (400, said)


async def test_probabilities_of_tokens_that_told_nothing_come_with_the_next_delta() -> None:
    def script(request: Request) -> Iterable[Event]:
        yield progress(request)
        for count, text in enumerate(("<think>", "hm", "</think>", "Yes", "<", "b"), 1):
            yield Tokens((piece(text, count, probs=TokenProbs(-0.5, ((7, -0.5),)), token=7),))
        yield finished(request, "", stop=StopType.EOS)

    made = bench(script, template=ChatTemplate(QWEN))
    parts = frames(await made.post(CHAT, body(stream=True, logprobs=True)))[1:-2]
    counts = [len(part["choices"][0]["logprobs"]["content"]) for part in parts]
    assert [part["choices"][0]["delta"] for part in parts] == [
        {"reasoning_content": "hm"},
        {"content": "Yes"},
        {"content": "<"},
        {"content": "b"},
    ]
    assert counts == [2, 2, 1, 1]


async def test_several_choices_are_read_apart() -> None:
    made = thinker("<think>hm</think>", "Yes")
    answer = await made.post(CHAT, body(n=2))
    assert [one["message"]["content"] for one in answer.json()["choices"]] == ["Yes", "Yes"]
    told = frames(await made.post(CHAT, body(n=2, stream=True)))[:-1]
    for index in (0, 1):
        mine = [frame["choices"][0]["delta"] for frame in told if frame["choices"][0]["index"] == index]
        assert mine == [{"role": "assistant", "content": None}, {"reasoning_content": "hm"}, {"content": "Yes"}, {}]


@pytest.mark.parametrize("texts", [("<think>", "hm"), ("<think>hm</think>", "Yes <tool_call>{"), (CALL, CALL)])
async def test_a_streams_deltas_add_up_to_the_whole_message(texts: tuple[str, ...]) -> None:
    whole = (await choice(thinker(*texts), tools=[TOOL]))["message"]
    pieces = [letter for text in texts for letter in text]
    told, _ = await deltas(thinker(*pieces), tools=[TOOL])
    content = "".join(delta.get("content", "") for delta in told)
    reasoning = "".join(delta.get("reasoning_content", "") for delta in told)
    calls = [part for delta in told for part in delta.get("tool_calls", [])]
    assert (content, reasoning) == (whole["content"], whole.get("reasoning_content", ""))
    for index, call in enumerate(whole.get("tool_calls", [])):
        mine = [part for part in calls if part["index"] == index]
        assert "".join(part["function"]["arguments"] for part in mine) == call["function"]["arguments"]
        assert [part["function"]["name"] for part in mine if "name" in part["function"]] == ["weather"]
