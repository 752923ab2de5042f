"""For browsers that still hold llama-server's web interface of this address: what it asks for, so that it lets go.

Its service worker would go on serving the old interface from its cache; it looks for its successor at /sw.js. An open
tab of it reloads when /_app/version.json names another version.
"""

from fastapi import APIRouter
from starlette.responses import Response

from stoker.core.build import build_info
from stoker.core.errors import NotFound
from stoker.routes.errors import NO_SUCH_ROUTE, outer_response
from stoker.routes.respond import json_response, plain_response
from stoker.routes.service import State
from stoker.routes.verbs import READ

WORKER = """addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) await caches.delete(name);
  await registration.unregister();
  for (const tab of await clients.matchAll({ type: "window" })) tab.navigate(tab.url);
})()));
"""
"""Empties the caches, removes itself and has open tabs load the page anew."""


def router(state: State) -> APIRouter:
    routes = APIRouter()

    def shown(answer: Response) -> Response:
        return answer if state.edge.ui else outer_response(NotFound(NO_SUCH_ROUTE))

    @routes.api_route("/sw.js", methods=READ)
    async def worker() -> Response:
        return shown(plain_response(WORKER.encode(), "text/javascript; charset=utf-8"))

    @routes.api_route("/manifest.webmanifest", methods=READ)
    async def manifest() -> Response:
        return shown(json_response({"name": "Stoker", "start_url": "./", "display": "browser"}))

    @routes.api_route("/_app/version.json", methods=READ)
    async def version() -> Response:
        return shown(json_response({"version": build_info()}))

    return routes
