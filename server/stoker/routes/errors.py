"""The one translation from anything raised to llama-server's envelope."""

import logging

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stoker.core.errors import ContextExceeded, NotFound, ServerError, ServerFault, Unavailable
from stoker.routes.body import Json
from stoker.routes.cors import edge_headers
from stoker.routes.respond import json_response
from stoker.routes.service import State

log = logging.getLogger("stoker")

NO_SUCH_ROUTE = "File Not Found"


def envelope(error: ServerError) -> Json:
    """The form that handlers use; a full context adds both of its numbers."""
    inside: Json = {"code": error.status, "message": error.message, "type": str(error.kind)}
    if isinstance(error, ContextExceeded):
        inside |= {"n_prompt_tokens": error.n_prompt_tokens, "n_ctx": error.n_ctx}
    return {"error": inside}


def outer_envelope(error: ServerError) -> Json:
    """The form that llama-server uses before a handler is reached: same keys, another order."""
    return {"error": {"message": error.message, "type": str(error.kind), "code": error.status}}


def error_response(error: ServerError) -> Response:
    headers: dict[str, str] = {}
    if isinstance(error, Unavailable) and error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return json_response(envelope(error), status=error.status, headers=headers)


def outer_response(error: ServerError) -> Response:
    return json_response(outer_envelope(error), status=error.status)


def fault(error: BaseException) -> ServerFault:
    """What the client learns of an unforeseen exception: that there was one, not where."""
    log.error("unforeseen fault: %s: %s", type(error).__name__, error)
    return ServerFault(f"internal error: {type(error).__name__}")


def install(app: FastAPI, state: State) -> None:
    """Hooks the translation into FastAPI."""

    async def on_server_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ServerError)
        return error_response(error)

    async def on_http_error(_request: Request, error: Exception) -> Response:
        """Starlette's own 404 and 405: no such route, or not with this method."""
        assert isinstance(error, HTTPException)
        return outer_response(NotFound(NO_SUCH_ROUTE))

    async def on_fault(request: Request, error: Exception) -> Response:
        """Runs outside the gate, so it brings the gate's headers itself."""
        response = error_response(fault(error))
        response.headers.update(edge_headers(state.edge, request.headers.get("origin", "")))
        return response

    app.add_exception_handler(ServerError, on_server_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_fault)
