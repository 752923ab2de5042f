"""What Google's Vertex AI tells a container that serves predictions: routes and port, in variables of its own.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.core.errors import StartError


@dataclass(frozen=True, slots=True)
class Vertex:
    predict: str = "/predict"
    health: str = ""
    """Another path for /health; empty: none."""
    port: int = 8080


def read(environ: Mapping[str, str]) -> Vertex | None:
    """None outside of Vertex AI. StartError for a port that is none."""
    if environ.get("AIP_MODE", "") != "PREDICTION":
        return None
    port = environ.get("AIP_HTTP_PORT", "") or "8080"
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise StartError(f"AIP_HTTP_PORT takes a port, not {port!r}")
    return Vertex(
        predict=_path(environ.get("AIP_PREDICT_ROUTE", "") or "/predict"),
        health=_path(environ.get("AIP_HEALTH_ROUTE", "")),
        port=int(port),
    )


def _path(text: str) -> str:
    return f"/{text}" if text and not text.startswith("/") else text
