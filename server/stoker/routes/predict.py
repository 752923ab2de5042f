"""Vertex AI's predict route: a list of instances, each a body for one of the server's own routes.

An instance names its route in `@requestFormat`, by its path or in camel case without `/v1`: `chatCompletions` is
/v1/chat/completions. The answers come in one list; one that failed is an error among them.
"""

import asyncio
import json
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import cast

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message

from stoker.core.errors import InvalidRequest, ServerError, StartError
from stoker.options.vertex import Vertex
from stoker.routes.body import Json, dump, parse
from stoker.routes.disconnect import while_connected
from stoker.routes.errors import envelope
from stoker.routes.respond import json_response

MOST = 128
"""Instances of one request."""
FORMAT = "@requestFormat"


def install(app: FastAPI, routes: Sequence[BaseRoute], vertex: Vertex, prefix: str) -> None:
    """Adds the routes that the environment asks for. StartError where one is taken.

    `routes` are the server's own, whose paths are without the prefix.
    """
    targets = _targets(routes)
    if vertex.predict in targets:
        raise StartError(f"AIP_PREDICT_ROUTE={vertex.predict} is a route of the server's own; choose another")
    by_name: dict[str, str] = {}
    for path in sorted(targets, key=lambda path: not path.startswith("/v1/")):
        by_name.setdefault(camel_case(path), path)

    async def predict(request: Request) -> Response:
        instances = read_instances(await request.body())
        calls = (_predict(app, request, instance, by_name, targets, prefix) for instance in instances)
        return json_response({"predictions": await while_connected(request.receive, _all(calls))})

    app.add_api_route(prefix + vertex.predict, predict, methods=["POST"], response_model=None)
    if vertex.health and vertex.health not in targets:
        health = next(route for route in routes if isinstance(route, Route) and route.path == "/health")
        app.add_api_route(prefix + vertex.health, health.endpoint, methods=["GET"], response_model=None)


def camel_case(path: str) -> str:
    """/v1/chat/completions → chatCompletions, /apply-template → applyTemplate."""
    words = [word for word in path.removeprefix("/v1").replace("-", "/").replace("_", "/").split("/") if word]
    return "".join([*words[:1], *(word[0].upper() + word[1:] for word in words[1:])])


def read_instances(body: bytes) -> list[object]:
    try:
        data = parse(body)
    except ServerError as error:
        raise InvalidRequest(error.message) from None
    if not isinstance(data, dict):
        raise InvalidRequest("request body must be a JSON object")
    instances = cast("Json", data).get("instances")
    if not isinstance(instances, list):
        raise InvalidRequest("request body must include an array field named instances")
    found = cast("list[object]", instances)
    if len(found) > MOST:
        raise InvalidRequest(f"instances array exceeds maximum size of {MOST}")
    return found


def _targets(routes: Sequence[BaseRoute]) -> Mapping[str, str]:
    """Paths, and the method that each is asked by: POST where it takes that."""
    found: dict[str, str] = {}
    for route in routes:
        if isinstance(route, Route) and "{" not in route.path:
            post = "POST" in (route.methods or ()) or found.get(route.path) == "POST"
            found[route.path] = "POST" if post else "GET"
    return found


async def _all(calls: Iterable[Awaitable[object]]) -> list[object]:
    return list(await asyncio.gather(*calls))


async def _predict(
    app: ASGIApp,
    request: Request,
    instance: object,
    by_name: Mapping[str, str],
    targets: Mapping[str, str],
    prefix: str,
) -> object:
    try:
        if not isinstance(instance, dict):
            raise InvalidRequest("each instance must be a JSON object")
        payload = dict(cast("Json", instance))
        name = payload.pop(FORMAT, None)
        if not isinstance(name, str):
            raise InvalidRequest(f"each instance must include a string {FORMAT}")
        path = by_name.get(name, name)
        if path not in targets:
            raise InvalidRequest(f"no handler registered for {FORMAT}: {name}")
    except InvalidRequest as error:
        return envelope(error)
    if "stream" in payload:
        payload["stream"] = False
    return await _call(app, request, targets[path], prefix + path, dump(payload))


async def _call(app: ASGIApp, request: Request, method: str, path: str, body: bytes) -> object:
    """Asks the server itself, with the headers of the request; the answer's JSON, or its text."""
    scope = {**request.scope, "method": method, "path": path, "raw_path": path.encode()}
    for name in ("route", "endpoint", "path_params", "state"):
        scope.pop(name, None)
    sent: list[bytes] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await asyncio.Event().wait()  # the caller cancels when the client leaves
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sent.append(message.get("body", b""))

    await app(scope, receive, send)
    text = b"".join(sent)
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode("utf-8", "replace")
