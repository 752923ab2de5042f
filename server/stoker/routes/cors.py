"""Headers that every response carries, and the answer to OPTIONS."""

from urllib.parse import urlsplit

from stoker.routes.service import Edge

SERVER = "llama.cpp"
_LOCAL = ("localhost", "127.0.0.1", "::1")


def allow_origin(edge: Edge, origin: str) -> str | None:
    """The value of Access-Control-Allow-Origin, None for no header. Empty is a value too."""
    if edge.cors_origins == "localhost":
        return origin if _is_local(origin) else None
    if edge.cors_origins == "*" and edge.cors_credentials:
        return origin
    return edge.cors_origins


def edge_headers(edge: Edge, origin: str) -> dict[str, str]:
    headers = {"Server": SERVER}
    allowed = allow_origin(edge, origin)
    if allowed is not None:
        headers["Access-Control-Allow-Origin"] = allowed
    return headers


def preflight_headers(edge: Edge) -> dict[str, str]:
    """What OPTIONS adds."""
    headers = {"Access-Control-Allow-Credentials": "true"} if edge.cors_credentials else {}
    return headers | {
        "Access-Control-Allow-Methods": edge.cors_methods,
        "Access-Control-Allow-Headers": edge.cors_headers,
    }


def _is_local(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in _LOCAL
    except ValueError:
        return False
