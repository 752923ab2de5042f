"""Demands B4 and D6: models with sliding windows and with a recurrent state, drafted, asked in any order."""

from collections.abc import AsyncIterator, Iterator

import pytest

from live.client import Body, Client, client_of
from live.models import WINDOW, tiny
from live.process import Live, start

pytestmark = pytest.mark.mlx

CHAT = "/v1/chat/completions"
PLAIN: Body = {"speculative": {"kind": "none"}}


@pytest.fixture(scope="module", params=["llama", "gemma3", "lfm2"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp(request.param)
    path = tiny(folder / "model.gguf", request.param)
    live = start(("-m", str(path), "-np", "2", "-c", "16384", "--draft-kind", "prompt-lookup"), folder / "log")
    yield live
    live.stop()


@pytest.fixture
async def family(server: Live) -> AsyncIterator[Client]:
    async with client_of(server.url) as client:
        yield client


def chat(*texts: str, count: int = 8) -> Body:
    """The user speaks first and last."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "M", "temperature": 0, "max_tokens": count, "ignore_eos": True, "messages": messages}


async def test_b4_turns_come_in_any_order_from_any_state(family: Client) -> None:
    first, second = chat("Hi"), chat("Hi", "Hello", "Go on")
    answers = [await family.ask(CHAT, body) for body in (first, first, second, first, second)]
    assert {answer["usage"]["completion_tokens"] for answer in answers} == {8}
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts[0] == texts[1] == texts[3]
    assert texts[2] == texts[4]


async def test_d6_a_prompt_longer_than_the_window_works_drafted_and_is_found_again(family: Client) -> None:
    assert (await family.http.get("/v1/models")).status_code == 200
    body = chat("one two three four " * 200, count=32)
    plain = await family.ask(CHAT, {**body, **PLAIN, "cache_prompt": False})
    first, again = [await family.ask(CHAT, body) for _ in range(2)]
    assert first["usage"]["prompt_tokens"] > 3000 > WINDOW
    assert first["choices"] == again["choices"] == plain["choices"]


async def test_d6_what_goes_on_is_found_in_the_slot(family: Client) -> None:
    """A recurrent state cannot go back, so the next turn must begin with all that the slot holds: tokens say so."""
    body = {"temperature": 0, "n_predict": 32, "ignore_eos": True, "return_tokens": True}
    prompt = [ord(letter) for letter in "one two three four " * 200]
    said = (await family.ask("/completion", {**body, "prompt": prompt}))["tokens"]
    going_on = {**body, "prompt": [*prompt, *said, 65, 66]}
    warm = await family.ask("/completion", going_on)
    cold = await family.ask("/completion", {**going_on, **PLAIN, "cache_prompt": False})
    assert warm["timings"]["cache_n"] > len(prompt)
    assert warm["tokens"] == cold["tokens"]
