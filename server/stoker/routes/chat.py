"""/chat/completions, its token count and its control, and /apply-template."""

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core import clock
from stoker.core.errors import InvalidRequest
from stoker.routes.answer import answer, subject_of
from stoker.routes.body import Json, members, parse
from stoker.routes.offload import off_loop
from stoker.routes.respond import json_response
from stoker.routes.schema.chat import count_tokens, read_chat, read_conversation
from stoker.routes.schema.fields import lenient
from stoker.routes.schema.rendering import render
from stoker.routes.service import Service, State
from stoker.routes.speakers import Chat


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/chat/completions")
    @routes.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        arrived, service = clock.now(), state.ready()
        raw = await request.body()
        body = members(parse(raw))
        job = await off_loop(len(raw), lambda: read_chat(body, service))
        return await answer(request, job, Chat(subject_of(job, service)), service, arrived)

    @routes.post("/chat/completions/input_tokens")
    @routes.post("/v1/chat/completions/input_tokens")
    async def input_tokens(request: Request) -> Response:
        service = await state.awake()
        raw = await request.body()
        body = members(parse(raw))
        return counted(await off_loop(len(raw), lambda: count_tokens(body, service)))

    @routes.post("/apply-template")
    async def apply_template(request: Request) -> Response:
        service = await state.awake()
        raw = await request.body()
        body = members(parse(raw))
        prompt = await off_loop(len(raw), lambda: render(read_conversation(body, service), service))
        return json_response({"prompt": prompt.text})

    @routes.post("/v1/chat/completions/control")
    async def control(request: Request) -> Response:
        body = members(parse(await request.body()))
        return json_response(_control(body, state.ready()))

    return routes


def counted(tokens: int) -> Response:
    return json_response({"input_tokens": tokens, "object": "response.input_tokens"})


def _control(body: Mapping[str, object], service: Service) -> Json:
    """Ends the thoughts of a running completion that asked for `reasoning_control`."""
    id = lenient(body, "id", "")
    if not id:
        raise InvalidRequest("missing completion id")
    if body.get("action") != "reasoning_end":
        raise InvalidRequest("unknown control action")
    why = service.controls.end_thought(id, service.scheduler.end_thought)
    return {"success": False, "message": why} if why else {"success": True}
