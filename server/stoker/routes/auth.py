"""API keys: who may pass, and which paths are open to all."""

import hmac

from starlette.datastructures import Headers

PAGES = frozenset({"/", "/index.html", "/sw.js", "/manifest.webmanifest", "/_app/version.json"})
"""Of the user interface; they are there while the model loads, too."""
PUBLIC = PAGES | {"/health", "/v1/health"}


def given_key(headers: Headers) -> str:
    """`Authorization`, its `Bearer ` prefix optional; `X-Api-Key` where that header is empty."""
    value = headers.get("authorization", "")
    if not value:
        return headers.get("x-api-key", "")
    return value.removeprefix("Bearer ")


def may_pass(keys: tuple[str, ...], path: str, headers: Headers) -> bool:
    """`path` is compared as sent, so that under an `--api-prefix` no path is open (as upstream)."""
    if not keys or path in PUBLIC:
        return True
    given = given_key(headers).encode()
    return any(hmac.compare_digest(given, key.encode()) for key in keys)
