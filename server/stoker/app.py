"""The FastAPI application around a State, and the process that serves it. Models are `host`'s business."""

import asyncio
import logging
import signal
import socket
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

import uvicorn
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from stoker.core.errors import StartError
from stoker.host import GRACE, Host
from stoker.routes import (
    adapters,
    chat,
    completion,
    embeddings,
    errors,
    foreign,
    health,
    infill,
    info,
    leftovers,
    page,
    predict,
    slots,
    tokens,
)
from stoker.routes.disconnect import ClientGoneError
from stoker.routes.gate import Gate
from stoker.routes.service import State
from stoker.settings import Settings

log = logging.getLogger(__name__)

LEAVE = 2.0
"""Seconds after the grace time in which last frames may reach their clients."""
CLIENT_CLOSED = 499
"""Nobody reads it; it marks the request in an access log."""


class Lifespan(Protocol):
    def __call__(self, app: FastAPI, /) -> AbstractAsyncContextManager[None]: ...


def create(state: State, lifespan: Lifespan | None = None) -> FastAPI:
    """All routes of the server. Give the web server `server_header=False`: the header is set here."""
    app = FastAPI(
        title="Stoker", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.add_middleware(Gate, state=state)
    errors.install(app, state)
    for gone in (ClientGoneError, ClientDisconnect):  # while it is answered, while its body is read
        app.add_exception_handler(gone, _on_client_gone)
    api = (completion, chat, foreign, tokens, infill, embeddings, info, slots, adapters, health, page, leftovers)
    routers = [module.router(state) for module in api]
    for router in routers:
        app.include_router(router, prefix=state.edge.prefix)
    if state.edge.vertex is not None:
        own = [route for router in routers for route in router.routes]
        predict.install(app, own, state.edge.vertex, state.edge.prefix)
    return app


async def _on_client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED)


class _Server(uvicorn.Server):
    """Ends running requests the way clients can understand, before uvicorn would cut their connections."""

    def __init__(self, config: uvicorn.Config, host: Host) -> None:
        super().__init__(config)
        self._host = host

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        finishing = asyncio.create_task(self._host.finish())
        await super().shutdown(sockets)
        await finishing


def serve(settings: Settings) -> int:
    """Listens, loads, answers until SIGINT or SIGTERM: the exit status. StartError where it cannot start."""
    server: uvicorn.Server | None = None

    def give_up() -> None:
        if server is not None:
            server.should_exit = True

    host = Host(settings, give_up)
    listener = _listen(settings)
    config = uvicorn.Config(
        create(host.state, host.lifespan),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(GRACE + LEAVE),
        ssl_keyfile=settings.ssl_key_file or None,
        ssl_certfile=settings.ssl_cert_file or None,
    )
    server = _Server(config, host)
    log.info("listening on %s", _address(settings, listener))
    with _quiet_signals():
        server.run(sockets=[listener])
    if listener.family == socket.AF_UNIX:
        Path(settings.host).unlink(missing_ok=True)
    if host.failure is not None:
        raise host.failure
    return 0


def _listen(settings: Settings) -> socket.socket:
    """The listening socket, so that a port that is taken is known before a model is loaded."""
    try:
        if settings.host.endswith(".sock"):
            return _listen_at(settings.host)
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return socket.create_server((settings.host, settings.port), family=family, reuse_port=settings.reuse_port)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise StartError(f"cannot listen on {where}: {error.strerror or error}; --host and --port choose") from None


def _listen_at(path: str) -> socket.socket:
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _address(settings: Settings, listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{settings.host}"
    scheme, (name, port, *_) = "https" if settings.ssl_cert_file else "http", listener.getsockname()
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}{settings.api_prefix}"


@contextmanager
def _quiet_signals() -> Generator[None]:
    """uvicorn raises the signal that ended it once more afterwards; an asked-for end is no failure."""

    def ignore(_number: int, _frame: FrameType | None) -> None: ...

    before = {number: signal.signal(number, ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
