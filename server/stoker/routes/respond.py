"""Responses with exactly the headers that llama-server sends."""

from collections.abc import Mapping

from starlette.responses import Response

from stoker.routes.body import dump

JSON = "application/json; charset=utf-8"


def json_response(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return plain_response(dump(value), JSON, status=status, headers=headers)


def plain_response(
    body: bytes, content_type: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """`content_type` is sent as it is: Starlette would add a charset to `text/…`."""
    return Response(body, status, {"content-type": content_type, **(headers or {})})
