"""Vertex AI's routes: instances go through the server's own handlers."""

import asyncio
from typing import Any

import pytest

from routes.fakes import Bench, FakeScheduler, message, says
from stoker.core.errors import StartError
from stoker.options.vertex import Vertex
from stoker.routes.predict import camel_case
from stoker.routes.service import Edge

CHAT = {"@requestFormat": "chatCompletions", "messages": [{"role": "user", "content": "hi"}]}


def there(vertex: Vertex | None = None, **edge: Any) -> Bench:
    return Bench(edge=Edge(vertex=vertex or Vertex(), **edge))


async def predictions(made: Bench, *instances: Any, path: str = "/predict") -> list[Any]:
    answer = await made.post(path, {"instances": instances})
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["predictions"]
    return answer.json()["predictions"]


async def test_each_instance_is_answered_by_the_route_that_it_names() -> None:
    chat, text, models, words = await predictions(
        there(),
        CHAT,
        {"@requestFormat": "completions", "prompt": "x"},
        {"@requestFormat": "models"},
        {"@requestFormat": "/tokenize", "content": "ab"},
    )
    assert chat["choices"][0]["message"] == {"role": "assistant", "content": "Hi there"}
    assert text["object"] == "text_completion"
    assert models["data"][0]["id"] == "smollm2"
    assert words == {"tokens": [97, 98]}


async def test_one_that_fails_is_an_error_among_the_others() -> None:
    made = await predictions(
        there(), 1, {"prompt": "x"}, {"@requestFormat": "nothing"}, {"@requestFormat": "completion"}, CHAT
    )
    said = [one["error"]["message"] for one in made[:4]]
    assert said == [
        "each instance must be a JSON object",
        "each instance must include a string @requestFormat",
        "no handler registered for @requestFormat: nothing",
        "[json.exception.out_of_range.403] key 'prompt' not found",
    ]
    assert "choices" in made[4]


async def test_nothing_is_streamed_and_an_answer_that_is_no_json_is_its_text() -> None:
    chat, figures = await predictions(there(), {**CHAT, "stream": True}, {"@requestFormat": "metrics"})
    assert chat["object"] == "chat.completion"
    assert figures.startswith("# HELP")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "parse error"),
        (b"[]", "request body must be a JSON object"),
        (b"{}", "request body must include an array field named instances"),
        (b'{"instances": {}}', "request body must include an array field named instances"),
        (b'{"instances": [%s]}' % b",".join([b"1"] * 129), "instances array exceeds maximum size of 128"),
    ],
)
async def test_a_body_without_instances_is_a_400(body: bytes, said: str) -> None:
    answer = await there().client.post("/predict", content=body)
    assert answer.status_code == 400
    assert said in message(answer)


async def test_paths_come_from_the_environment_and_stand_behind_the_prefix() -> None:
    made = there(Vertex("/p", "/alive"), prefix="/api")
    assert "choices" in (await predictions(made, CHAT, path="/api/p"))[0]
    assert (await made.get("/api/alive")).json() == {"status": "ok"}
    assert (await Bench().post("/predict", {"instances": []})).status_code == 404
    same = there(Vertex("/p", "/health"))
    assert (await same.get("/health")).status_code == 200
    with pytest.raises(StartError, match="AIP_PREDICT_ROUTE=/props"):
        there(Vertex("/props"))


async def test_keys_hold_for_the_route_and_for_what_it_asks() -> None:
    made = there(keys=("k",))
    assert (await made.post("/predict", {"instances": []})).status_code == 401
    answer = await made.post("/predict", {"instances": [CHAT]}, headers={"Authorization": "Bearer k"})
    assert "choices" in answer.json()["predictions"][0]


async def test_who_leaves_cancels_every_instance() -> None:
    def slow(request: Any) -> Any:
        yield from list(says("a")(request))[:1]
        yield 30.0

    made = Bench(scheduler=FakeScheduler(slow), edge=Edge(vertex=Vertex()))
    asking = asyncio.create_task(made.post("/predict", {"instances": [CHAT, CHAT]}))
    while len(made.scheduler.requests) < 2:
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    for _ in range(100):
        if len(set(made.scheduler.cancelled)) == 2:
            break
        await asyncio.sleep(0.01)
    assert sorted(set(made.scheduler.cancelled)) == [0, 1]


def test_names_are_camel_case_without_the_version() -> None:
    assert camel_case("/v1/chat/completions") == "chatCompletions"
    assert camel_case("/apply-template") == "applyTemplate"
    assert camel_case("/v1/messages/count_tokens") == "messagesCountTokens"
    assert camel_case("/") == ""
