"""/chat/completions, its token count, and /apply-template."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core import clock
from stoker.routes.answer import answer, subject_of
from stoker.routes.body import members, parse
from stoker.routes.offload import off_loop
from stoker.routes.respond import json_response
from stoker.routes.schema.chat import read_chat, read_conversation, render
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
        service = state.ready()
        prompt = await _prompt(request, service)
        ids = await off_loop(
            len(prompt), lambda: service.tokenizer.encode(prompt, add_special=True, parse_special=True)
        )
        return json_response({"input_tokens": len(ids), "object": "response.input_tokens"})

    @routes.post("/apply-template")
    async def apply_template(request: Request) -> Response:
        return json_response({"prompt": await _prompt(request, state.ready())})

    return routes


async def _prompt(request: Request, service: Service) -> str:
    raw = await request.body()
    body = members(parse(raw))
    return await off_loop(len(raw), lambda: render(read_conversation(body, service), service))
