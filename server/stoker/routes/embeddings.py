"""/embedding, /embeddings and /v1/embeddings; and /rerank, which no model that MLX can load is able to."""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core import clock
from stoker.core.errors import InvalidRequest, Unavailable
from stoker.core.events import Embedded, Failed
from stoker.core.request import Pooling, Speculation
from stoker.core.request import Request as Wanted
from stoker.routes.body import members, parse
from stoker.routes.disconnect import while_connected
from stoker.routes.info import switched_off
from stoker.routes.offload import off_loop
from stoker.routes.respond import json_response
from stoker.routes.schema.embedding import read_embedding
from stoker.routes.schema.job import Ids
from stoker.routes.service import EventStream, Service, State
from stoker.routes.shape import embeddings as shape


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/embedding")
    @routes.post("/embeddings")
    async def native(request: Request) -> Response:
        return await _answer(request, state.ready(), openai=False)

    @routes.post("/v1/embeddings")
    async def openai(request: Request) -> Response:
        return await _answer(request, state.ready(), openai=True)

    @routes.post("/rerank")
    @routes.post("/reranking")
    @routes.post("/v1/rerank")
    @routes.post("/v1/reranking")
    async def rerank() -> Response:
        raise switched_off("reranking", "--reranking")

    return routes


async def _answer(request: Request, service: Service, *, openai: bool) -> Response:
    arrived, pooling = clock.now(), service.pooling
    if pooling is None:
        raise switched_off("embeddings", "--embeddings")
    if openai and pooling is Pooling.NONE:
        raise InvalidRequest("Pooling type 'none' is not OAI compatible. Please use a different pooling type")
    raw = await request.body()
    body = members(parse(raw))
    job = await off_loop(len(raw), lambda: read_embedding(body, service, openai=openai))
    ends = await embed(request, job.prompts, service, arrived)
    pooled = pooling is not Pooling.NONE
    return json_response(shape.openai(ends, job) if job.openai else shape.native(ends, job, pooled=pooled))


async def embed(request: Request, prompts: tuple[Ids, ...], service: Service, arrived: float) -> list[Embedded]:
    """One a prompt, in order. Whoever leaves early cancels what is queued or running."""
    ids: list[int] = []
    streams: list[EventStream] = []
    try:
        for prompt in prompts:
            wanted = Wanted(
                service.scheduler.next_id(),
                prompt,
                arrived,
                pooling=service.pooling,
                speculation=Speculation(kind="none"),
                adapters=service.adapters.of(),
            )
            streams.append(service.scheduler.submit(wanted))
            ids.append(wanted.id)
        return await while_connected(request.receive, _all(streams))
    finally:
        for id in ids:
            service.scheduler.cancel(id)


async def _all(streams: list[EventStream]) -> list[Embedded]:
    return list(await asyncio.gather(*map(_end, streams)))


async def _end(stream: EventStream) -> Embedded:
    async for event in stream:
        if isinstance(event, Embedded):
            return event
        if isinstance(event, Failed):
            raise event.error
    raise Unavailable("The request was cancelled")
