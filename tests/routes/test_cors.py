import pytest

from stoker.routes.cors import allow_origin, edge_headers, preflight_headers
from stoker.routes.service import Edge

SITE, LOCAL = "https://a.example", "http://localhost:3000"


@pytest.mark.parametrize(
    ("origins", "credentials", "origin", "allowed"),
    [
        ("*", True, SITE, SITE),
        ("*", True, "", ""),
        ("*", False, SITE, "*"),
        ("localhost", True, LOCAL, LOCAL),
        ("localhost", True, "http://[::1]:80", "http://[::1]:80"),
        ("localhost", True, SITE, None),
        ("localhost", True, "http://[", None),
        (SITE, True, LOCAL, SITE),
    ],
)
def test_which_origin_is_allowed(origins: str, credentials: bool, origin: str, allowed: str | None) -> None:
    edge = Edge(cors_origins=origins, cors_credentials=credentials)
    assert allow_origin(edge, origin) == allowed
    assert edge_headers(edge, origin).get("Access-Control-Allow-Origin") == allowed


def test_options_says_what_may_be_sent() -> None:
    edge = Edge(cors_methods="GET", cors_headers="X-A")
    assert preflight_headers(edge) == {
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Methods": "GET",
        "Access-Control-Allow-Headers": "X-A",
    }
    assert "Access-Control-Allow-Credentials" not in preflight_headers(Edge(cors_credentials=False))
