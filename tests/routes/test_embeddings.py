"""The embedding routes: their two shapes, norms, encodings and complaints."""

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from routes.fakes import Bench, bench, message, progress
from stoker.core.errors import ServerFault
from stoker.core.events import Embedded, Event, Failed
from stoker.core.request import Pooling, Request
from stoker.routes.scales import Scales
from stoker.routes.schema.embedding import EmbeddingJob
from stoker.routes.service import Defaults
from stoker.routes.shape.embeddings import normalized

VECTOR = (3.0, 0.0, -4.0)


def made(pooling: Pooling | None = Pooling.MEAN, **changes: Any) -> Bench:
    def script(request: Request) -> Iterable[Event]:
        yield progress(request)
        one = tuple(part * request.prompt[0] for part in VECTOR)
        count = len(request.prompt) if request.pooling is Pooling.NONE else 1
        yield Embedded((one,) * count, len(request.prompt))

    return bench(script, pooling=pooling, **changes)


async def test_openais_shape_has_unit_vectors_in_order_and_counts_all_tokens() -> None:
    answer = await made().post("/v1/embeddings", {"input": ["ab", [9, 9, 9]], "model": "mine"})
    assert answer.json() == {
        "model": "mine",
        "object": "list",
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
        "data": [
            {"embedding": [float(np.float32(0.6)), 0.0, float(np.float32(-0.8))], "index": index, "object": "embedding"}
            for index in range(2)
        ],
    }


async def test_the_request_that_is_run_pools_and_does_not_draft() -> None:
    one = made(adapters=Scales(["a"], [0.5]))
    await one.post("/v1/embeddings", {"input": "ab"})
    (request,) = one.scheduler.requests
    assert (request.pooling, request.speculation.disabled, request.generates) == (Pooling.MEAN, True, False)
    assert request.adapters == (0.5,)
    assert one.scheduler.cancelled == [request.id]


async def test_base64_holds_the_same_float32_numbers() -> None:
    answer = (await made().post("/v1/embeddings", {"input": "a", "encoding_format": "base64"})).json()
    (entry,) = answer["data"]
    assert list(entry) == ["embedding", "index", "object", "encoding_format"]
    np.testing.assert_array_equal(
        np.frombuffer(base64.b64decode(entry["embedding"]), "<f4"), np.array([0.6, 0, -0.8], np.float32)
    )


@pytest.mark.parametrize("path", ["/embedding", "/embeddings"])
async def test_the_native_shape_is_a_list_of_lists(path: str) -> None:
    for body in ({"content": "a"}, {"input": "a"}):
        (entry,) = (await made().post(path, body)).json()
        assert list(entry) == ["index", "embedding"]
        assert [len(vector) for vector in entry["embedding"]] == [3]


async def test_content_asks_for_the_native_shape_on_openais_route_too() -> None:
    assert isinstance((await made().post("/v1/embeddings", {"content": "a"})).json(), list)


async def test_without_pooling_there_is_a_raw_vector_for_each_token_and_no_openai_shape() -> None:
    (entry,) = (await made(Pooling.NONE).post("/embedding", {"content": [1, 2], "embd_normalize": 2})).json()
    assert entry["embedding"] == [list(VECTOR)] * 2
    refused = await made(Pooling.NONE).post("/v1/embeddings", {"input": "a"})
    assert (refused.status_code, message(refused)) == (
        400,
        "Pooling type 'none' is not OAI compatible. Please use a different pooling type",
    )


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (-1, VECTOR),
        (0, (24570, 0, -32760)),
        (1, (3 / 7, 0, -4 / 7)),
        (2, (0.6, 0, -0.8)),
        (3, (3 / 91 ** (1 / 3), 0, -4 / 91 ** (1 / 3))),
    ],
)
def test_norms_are_llama_cpps(norm: int, expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(normalized(VECTOR, norm), expected, rtol=1e-5)
    assert not normalized((0.0, 0.0), norm).any()


async def test_the_servers_norm_holds_until_a_request_says_another() -> None:
    one = made(defaults=Defaults(embd_normalize=-1))
    raw, unit = [
        (await one.post("/v1/embeddings", {"input": [[1]], **more})).json()["data"][0]["embedding"]
        for more in ({}, {"embd_normalize": 2})
    ]
    assert raw == list(VECTOR)
    assert sum(x * x for x in unit) == pytest.approx(1)


TYPE = "[json.exception.type_error.302] type must be "
FORMATS = "The format to return the embeddings in. Can be either float or base64"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, '"input" or "content" must be provided'),
        ([], 400, '"input" or "content" must be provided'),
        ({"input": ""}, 400, "Input content cannot be empty"),
        ({"input": ["a", ""]}, 400, "Input content cannot be empty"),
        ({"input": []}, 400, '"prompt" must not be empty'),
        ({"input": "a", "encoding_format": "hex"}, 400, FORMATS),
        ({"input": "a", "encoding_format": 1}, 500, f"{TYPE}string, but is number"),
        ({"input": "a", "embd_normalize": "x"}, 500, f"{TYPE}number, but is string"),
        ({"input": [[999]]}, 400, "Prompt contains invalid tokens"),
    ],
)  # fmt: skip
async def test_what_cannot_be_embedded_is_said_in_llama_servers_words(body: Any, status: int, said: str) -> None:
    answer = await made().post("/v1/embeddings", body)
    assert (answer.status_code, message(answer)) == (status, said)


async def test_a_fault_of_one_is_the_answer_and_the_others_are_cancelled() -> None:
    def script(request: Request) -> Iterable[Event]:
        yield Failed(ServerFault("lost")) if request.prompt == (98,) else Embedded((VECTOR,), 1)

    one = bench(script, pooling=Pooling.MEAN)
    answer = await one.post("/v1/embeddings", {"input": ["a", "b", "c"]})
    assert (answer.status_code, message(answer)) == (500, "lost")
    assert one.scheduler.cancelled == [request.id for request in one.scheduler.requests]


async def test_a_stream_that_ends_without_a_vector_is_a_503() -> None:
    answer = await bench(lambda _: (), pooling=Pooling.MEAN).post("/embedding", {"input": "a"})
    assert answer.status_code == 503


async def test_a_refusal_of_the_second_prompt_leaves_nothing_behind() -> None:
    one = made()
    one.scheduler.refusal, one.scheduler.refuse_from = ServerFault("full"), 2
    assert (await one.post("/embedding", {"input": ["a", "b"]})).status_code == 500
    assert one.scheduler.cancelled == [one.scheduler.requests[0].id]


def test_a_job_is_plain_data() -> None:
    assert EmbeddingJob(((1,),), 2, False, True, "m") == EmbeddingJob(((1,),), 2, False, True, "m")
