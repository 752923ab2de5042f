"""/responses (OpenAI's) and /messages (Anthropic's): other ways to say a chat."""

from collections.abc import Callable, Mapping

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core import clock
from stoker.routes.answer import answer, subject_of
from stoker.routes.body import Json, members, parse
from stoker.routes.chat import counted
from stoker.routes.offload import off_loop
from stoker.routes.respond import json_response
from stoker.routes.schema import anthropic, responses
from stoker.routes.schema.chat import count_tokens, read_chat
from stoker.routes.schema.job import Job
from stoker.routes.service import Service, State
from stoker.routes.speak_messages import Messages
from stoker.routes.speak_responses import Responses

AsChat = Callable[[Mapping[str, object]], Json]


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/responses")
    @routes.post("/v1/responses")
    async def respond(request: Request) -> Response:
        arrived, service = clock.now(), state.ready()
        job = await _job(request, responses.as_chat, service)
        return await answer(request, job, Responses(subject_of(job, service)), service, arrived)

    @routes.post("/responses/input_tokens")
    @routes.post("/v1/responses/input_tokens")
    async def response_tokens(request: Request) -> Response:
        return counted(await _count(request, responses.as_chat, await state.awake()))

    @routes.post("/v1/messages")
    async def message(request: Request) -> Response:
        arrived, service = clock.now(), state.ready()
        job = await _job(request, anthropic.as_chat, service)
        return await answer(request, job, Messages(subject_of(job, service)), service, arrived)

    @routes.post("/v1/messages/count_tokens")
    async def message_tokens(request: Request) -> Response:
        return json_response({"input_tokens": await _count(request, anthropic.as_chat, await state.awake())})

    return routes


async def _job(request: Request, as_chat: AsChat, service: Service) -> Job:
    raw = await request.body()
    body = members(parse(raw))
    return await off_loop(len(raw), lambda: read_chat(as_chat(body), service))


async def _count(request: Request, as_chat: AsChat, service: Service) -> int:
    raw = await request.body()
    body = members(parse(raw))
    return await off_loop(len(raw), lambda: count_tokens(as_chat(body), service))
