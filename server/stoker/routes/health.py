"""/health and the page at /."""

from fastapi import APIRouter
from starlette.responses import Response

from stoker.core.errors import NotFound, Unavailable
from stoker.routes.errors import NO_SUCH_ROUTE, outer_response
from stoker.routes.respond import json_response, plain_response
from stoker.routes.service import State
from stoker.routes.verbs import READ

PAGE = b"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Stoker</title></head>
<body>
<h1>Stoker</h1>
<p>An inference server that speaks llama-server's protocol. This page is all of its user interface.</p>
<p>Try <a href="v1/models">/v1/models</a>, <a href="props">/props</a>, <a href="health">/health</a>.</p>
</body>
</html>
"""


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.api_route("/health", methods=READ)
    @routes.api_route("/v1/health", methods=READ)
    async def health() -> Response:
        if not state.ready().scheduler.healthy:
            raise Unavailable("The engine has stopped")
        return json_response({"status": "ok"})

    @routes.api_route("/", methods=READ)
    @routes.api_route("/index.html", methods=READ)
    async def page() -> Response:
        if not state.edge.ui:
            return outer_response(NotFound(NO_SUCH_ROUTE))
        return plain_response(PAGE, "text/html; charset=utf-8")

    return routes
