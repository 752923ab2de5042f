"""/completion, /completions (native) and /v1/completions (OpenAI's text_completion)."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core import clock
from stoker.routes.answer import answer, subject_of
from stoker.routes.body import members, parse
from stoker.routes.offload import off_loop
from stoker.routes.schema.job import Job
from stoker.routes.schema.native import read_job
from stoker.routes.schema.prompts import read_prompts
from stoker.routes.service import Service, State
from stoker.routes.speakers import Native, Text


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/completion")
    @routes.post("/completions")
    async def native(request: Request) -> Response:
        arrived, service = clock.now(), state.ready()
        job = await _job(request, service)
        return await answer(request, job, Native(subject_of(job, service)), service, arrived)

    @routes.post("/v1/completions")
    async def text(request: Request) -> Response:
        arrived, service = clock.now(), state.ready()
        job = await _job(request, service)
        return await answer(request, job, Text(subject_of(job, service)), service, arrived)

    return routes


async def _job(request: Request, service: Service) -> Job:
    raw = await request.body()
    body = parse(raw)
    return await off_loop(len(raw), lambda: read_job(members(body), read_prompts(body, service.tokenizer), service))
