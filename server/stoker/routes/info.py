"""/props, /slots, /metrics, /models: what the server says of itself."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core.errors import NotSupported, Unavailable
from stoker.routes.body import read
from stoker.routes.respond import json_response, plain_response
from stoker.routes.service import State
from stoker.routes.shape.ids import new_id, wall_seconds
from stoker.routes.shape.metrics import metrics
from stoker.routes.shape.models import models
from stoker.routes.shape.props import props
from stoker.routes.shape.slots import slot
from stoker.routes.verbs import READ


def switched_off(what: str, flag: str) -> NotSupported:
    return NotSupported(f"This server does not support {what}. Start it with `{flag}`")


def router(state: State) -> APIRouter:
    routes = APIRouter()
    marker = new_id("<__media_") + "__>"
    _add_props(routes, state, marker)
    _add_figures(routes, state)

    @routes.api_route("/models", methods=READ)
    @routes.api_route("/v1/models", methods=READ)
    async def list_models() -> Response:
        service = state.ready()
        return json_response(models(service.info, service.aliases, service.tags, service.context, wall_seconds()))

    return routes


def _add_props(routes: APIRouter, state: State, marker: str) -> None:
    @routes.api_route("/props", methods=READ)
    async def get_props() -> Response:
        return json_response(props(state.ready(), state.edge, marker))

    @routes.post("/props")
    async def set_props(request: Request) -> Response:
        """Accepted and without effect, as upstream."""
        if not state.ready().switches.props:
            raise switched_off("changing global properties", "--props")
        await read(request)
        return json_response({"success": True})


def _add_figures(routes: APIRouter, state: State) -> None:
    @routes.api_route("/slots", methods=READ)
    async def get_slots(request: Request) -> Response:
        service = state.ready()
        if not service.switches.slots:
            raise switched_off("slots endpoint", "--slots")
        views = service.scheduler.slots()
        if request.query_params.get("fail_on_no_slot") and all(view.busy for view in views):
            raise Unavailable("no slot available")
        debug = service.switches.slots_debug
        return json_response(
            [slot(view, service.context, speculative=service.speculative, debug=debug) for view in views]
        )

    @routes.api_route("/metrics", methods=READ)
    async def get_metrics() -> Response:
        service = state.ready()
        if not service.switches.metrics:
            raise switched_off("metrics endpoint", "--metrics")
        before, state.scraped = state.scraped, service.scheduler.totals()
        text = metrics(state.scraped, before, service.budget(), service.draft_most).encode()
        headers = {"Process-Start-Time-Unix": str(service.started)}
        return plain_response(text, "text/plain; version=0.0.4", headers=headers)
