"""/infill: a native completion whose prompt is made of what stands around a gap."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core import clock
from stoker.routes.answer import answer, subject_of
from stoker.routes.body import members, parse
from stoker.routes.offload import off_loop
from stoker.routes.schema.infill import read_infill, require_tokens
from stoker.routes.schema.native import read_job
from stoker.routes.service import State
from stoker.routes.speakers import Native


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/infill")
    async def infill(request: Request) -> Response:
        arrived, service = clock.now(), state.ready()
        require_tokens(service.tokenizer)
        raw = await request.body()
        body = members(parse(raw))
        job = await off_loop(len(raw), lambda: read_job(body, [read_infill(body, service)], service))
        return await answer(request, job, Native(subject_of(job, service)), service, arrived)

    return routes
