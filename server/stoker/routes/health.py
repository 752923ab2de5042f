"""/health."""

from fastapi import APIRouter
from starlette.responses import Response

from stoker.core.errors import Unavailable
from stoker.routes.respond import json_response
from stoker.routes.service import State
from stoker.routes.verbs import READ


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.api_route("/health", methods=READ)
    @routes.api_route("/v1/health", methods=READ)
    async def health() -> Response:
        if not state.ready().scheduler.healthy:
            raise Unavailable("The engine has stopped")
        return json_response({"status": "ok"})

    return routes
