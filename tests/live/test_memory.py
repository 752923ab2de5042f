"""Demand F1 a, d and e: memory is bounded, the name of a model is nobody's business, a prefix is found again."""

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from live.client import Body, Client, client_of
from live.models import tiny
from live.process import Live, start

pytestmark = pytest.mark.mlx

CAP_MIB, SLACK_MIB = 40, 80
TOKENS = 2000
WIDE: Body = {"head_dim": 128, "num_key_value_heads": 4}
"""A prompt's keys and values take 16 MiB."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    path = tiny(tmp_path_factory.mktemp("wide") / "wide.gguf", **WIDE)
    words = ("-m", str(path), "-np", "2", "-c", "8192", "--cache-ram", str(CAP_MIB), "--metrics")
    live = start(words, tmp_path_factory.mktemp("capped") / "log")
    yield live
    live.stop()


@pytest.fixture
async def capped(server: Live) -> AsyncIterator[Client]:
    async with client_of(server.url) as client:
        yield client


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the process's size from /proc")
@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
async def test_f1a_the_cap_of_the_prompt_cache_holds(capped: Client, server: Live, count: int) -> None:
    for n in range(6):
        await capped.complete(prompt(f"warm {n}"), 2)
    before = server.resident_mib
    for n in range(count):
        await capped.complete(prompt(f"{count} {n}"), 2)
    metrics = await capped.metrics()
    assert metrics["stoker:prompt_cache_evictions_total"] > 0, "the cap was reached"
    assert metrics["stoker:prompt_cache_bytes"] <= CAP_MIB * 2**20
    assert server.resident_mib - before <= CAP_MIB + SLACK_MIB
    assert (await capped.complete(prompt("after"), 2))["tokens_predicted"] == 2


def prompt(seed: str) -> str:
    """So many tokens, like no other prompt from the first one on."""
    letters = random.Random(seed)
    return "".join(letters.choice("abcdefghij ") for _ in range(TOKENS))


async def test_f1d_with_one_model_its_name_is_ignored(capped: Client) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
    answers = [await capped.ask("/v1/chat/completions", {"model": name, **body}) for name in ("A", "B", "no such") * 2]
    assert len({answer["choices"][0]["message"]["content"] for answer in answers}) == 1


async def test_f1e_a_stamp_in_the_system_prompt_does_not_lose_the_prefix(capped: Client) -> None:
    first = turn("3f9a1", [{"role": "user", "content": "Hi"}])
    said = (await capped.ask("/v1/messages", first))["content"][0]["text"]
    going_on = [*first["messages"], {"role": "assistant", "content": said}, {"role": "user", "content": "Go on"}]
    answer = await capped.ask("/v1/messages", turn("b77e0", going_on))
    used = answer["usage"]
    whole = used["input_tokens"] + used["cache_read_input_tokens"]
    assert used["cache_read_input_tokens"] >= 0.9 * whole


def turn(stamp: str, messages: list[Body]) -> Body:
    header = f"x-anthropic-billing-header: cc_version=2.1; cch={stamp};\n"
    system = [{"type": "text", "text": header}, {"type": "text", "text": "You are careful and brief. " * 40}]
    return {"model": "M", "max_tokens": 8, "temperature": 0, "system": system, "messages": messages}
