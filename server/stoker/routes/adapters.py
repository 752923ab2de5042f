"""/lora-adapters: the adapters that were loaded, and the scales of requests that name none."""

from collections.abc import Mapping, Sequence
from typing import cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core.errors import InvalidRequest
from stoker.routes.body import Json, members, read
from stoker.routes.respond import json_response
from stoker.routes.schema.fields import lenient_int, widen
from stoker.routes.service import State
from stoker.routes.verbs import READ


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.api_route("/lora-adapters", methods=READ)
    async def get_adapters() -> Response:
        service = state.ready()
        scales = service.adapters.scales
        return json_response([_listed(id, path, scales[id]) for id, path in enumerate(service.adapters.paths)])

    @routes.post("/lora-adapters")
    async def set_adapters(request: Request) -> Response:
        """What is not named gets the scale 0."""
        service, body = state.ready(), await read(request)
        if not isinstance(body, list):
            raise InvalidRequest("Request body must be an array")
        service.adapters.set(read_scales(cast("list[object]", body)))
        return json_response({"success": True})

    return routes


def read_scales(entries: Sequence[object]) -> Mapping[int, float]:
    """`{id, scale}` objects; of two for one id the last one counts, what is no number is 0."""
    return {lenient_int(entry, "id", -1): _scale(entry) for entry in map(members, entries)}


def _scale(entry: Mapping[str, object]) -> float:
    scale = entry.get("scale")
    return float(scale) if isinstance(scale, int | float) and not isinstance(scale, bool) else 0.0


def _listed(id: int, path: str, scale: float) -> Json:
    return {"id": id, "path": path, "scale": widen(scale), "task_name": "", "prompt_prefix": ""}
