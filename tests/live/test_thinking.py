"""Demand E1: reasoning is separate, bounded, and never swallows the answer. A scripted engine thinks."""

import pytest

from fakes import FakeDrafter, FakeEngine
from live.client import Body, Client
from live.scripted import serving, speaker

CHAT = "/v1/chat/completions"
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}"
)
THOUGHT, ANSWER = "Seventeen threes are fifty-one, since ten threes are thirty.", "It is 51."
BODY: Body = {
    "model": "M", "temperature": 0, "max_tokens": 300,
    "messages": [{"role": "user", "content": "What is 17 times 3?"}],
}  # fmt: skip
OFF = ({"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"})


def thinker(drafter: FakeDrafter | None = None) -> FakeEngine:
    """Thinks where the prompt leaves it room to, and answers behind the end of a thought, whoever ended it."""
    model = speaker(
        ("</think>\n\n", ANSWER),
        ("</think>", f"\n\n{ANSWER}"),
        ("assistant\n", f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"),
    )
    return FakeEngine(model=model, drafter=drafter)


async def said(client: Client, **fields: object) -> tuple[str, str]:
    """Reasoning and content, which must be the same streamed and whole."""
    body = {**BODY, **fields}
    message = (await client.ask(CHAT, body))["choices"][0]["message"]
    whole = message.get("reasoning_content") or "", message.get("content") or ""
    async with client.stream(CHAT, body) as stream:
        await stream.rest()
    deltas = [choice["delta"] for frame in stream.frames for choice in frame.get("choices", ())]
    parts = ("".join(delta.get(key) or "" for delta in deltas) for key in ("reasoning_content", "content"))
    assert tuple(parts) == whole
    return whole


async def test_e1_a_thought_is_no_part_of_the_answer() -> None:
    async with serving(thinker(), TEMPLATE) as client:
        assert await said(client) == (THOUGHT, ANSWER)


@pytest.mark.parametrize("fields", OFF, ids=["template", "effort"])
async def test_e1_off_means_no_thought_and_an_answer(fields: Body) -> None:
    async with serving(thinker(), TEMPLATE) as client:
        assert await said(client, **fields) == ("", ANSWER)
        answer = await client.ask(CHAT, {**BODY, **fields})
        assert "reasoning_content" not in answer["choices"][0]["message"]


@pytest.mark.parametrize("budget", [0, 16])
async def test_e1_a_budget_ends_the_thought_and_the_answer_follows(budget: int) -> None:
    async with serving(thinker(), TEMPLATE) as client:
        thought, answer = await said(client, thinking_budget_tokens=budget)
        assert len(thought) <= budget + 4
        assert THOUGHT.startswith(thought.strip())
        assert answer == ANSWER


@pytest.mark.parametrize("budget", [-1, 16])
@pytest.mark.parametrize("accepts", [0, 2, 3])
async def test_e1_a_drafter_does_not_move_the_split(accepts: int, budget: int) -> None:
    async with serving(thinker(), TEMPLATE) as client:
        plain = await said(client, thinking_budget_tokens=budget)
    async with serving(thinker(FakeDrafter(accepts=lambda _: accepts)), TEMPLATE) as client:
        assert await said(client, thinking_budget_tokens=budget) == plain
        assert (await client.ask(CHAT, BODY))["timings"]["draft_n"] > 0


async def test_e1_an_answer_cut_inside_the_thought_is_all_thought() -> None:
    async with serving(thinker(), TEMPLATE) as client:
        thought, answer = await said(client, max_tokens=20)
        assert answer == ""
        assert len(thought) >= 8
        assert THOUGHT.startswith(thought)
