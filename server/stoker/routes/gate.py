"""What happens before routing, in llama-server's order: OPTIONS, loading, key. Adds the common headers."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.core.errors import Unauthorized, Unavailable
from stoker.routes.auth import PAGES, may_pass
from stoker.routes.cors import edge_headers, preflight_headers
from stoker.routes.errors import outer_response
from stoker.routes.respond import plain_response
from stoker.routes.service import LOADING, State


def _as_printed(name: bytes) -> bytes:
    """`content-type` → `Content-Type`: case means nothing, but there are clients that look for upstream's."""
    return b"-".join(word.capitalize() for word in name.split(b"-"))


class Gate:
    def __init__(self, app: ASGIApp, state: State) -> None:
        self.app = app
        self.state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        common = edge_headers(self.state.edge, headers.get("origin", ""))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(common)
                message["headers"] = [(_as_printed(name), value) for name, value in message["headers"]]
            await send(message)

        await self.choose(scope, headers)(scope, receive, send_with_headers)

    def choose(self, scope: Scope, headers: Headers) -> ASGIApp:
        """The answer that ends here, or the application."""
        edge, path = self.state.edge, str(scope["path"])
        if scope["method"] == "OPTIONS":
            return plain_response(b"", "text/html", headers=preflight_headers(edge))
        if self.state.service is None and not (edge.ui and path.removeprefix(edge.prefix) in PAGES):
            return outer_response(Unavailable(LOADING))
        if not may_pass(edge.keys, path, headers):
            return outer_response(Unauthorized("Invalid API Key"))
        return self.app
