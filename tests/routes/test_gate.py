"""What comes before routing: OPTIONS, loading, keys, unknown paths; and the headers of every response."""

import pytest

from routes.fakes import Bench, message
from stoker.routes.auth import given_key, may_pass
from stoker.routes.cors import allow_origin
from stoker.routes.service import Edge, State

LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
NO_KEY = {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
NOT_FOUND = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/nope", "/completion"])
async def test_while_loading_every_route_answers_503(path: str) -> None:
    answer = await Bench(loading=True).get(path)
    assert (answer.status_code, answer.json()) == (503, LOADING)
    assert answer.headers["server"] == "llama.cpp"


async def test_while_loading_the_page_is_there_and_options_work() -> None:
    made = Bench(loading=True, edge=Edge(keys=("k",)))
    assert (await made.get("/")).status_code == 200
    assert (await made.client.options("/x")).status_code == 200
    assert (await Bench(loading=True, edge=Edge(ui=False)).get("/")).status_code == 503


async def test_loading_comes_before_the_key_and_the_key_before_the_route() -> None:
    edge = Edge(keys=("k",))
    assert (await Bench(loading=True, edge=edge).get("/nope")).json() == LOADING
    assert (await Bench(edge=edge).get("/nope")).json() == NO_KEY
    assert (await Bench(edge=edge).get("/nope", headers={"Authorization": "Bearer k"})).json() == NOT_FOUND


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_a_wrong_method_is_an_unknown_route(method: str) -> None:
    answer = await Bench().client.request(method, "/completion")
    assert (answer.status_code, answer.json()) == (404, NOT_FOUND)


async def test_the_service_appears_without_a_new_app() -> None:
    made = Bench(loading=True)
    assert (await made.get("/health")).status_code == 503
    made.state.service = made.service
    assert (await made.get("/health")).json() == {"status": "ok"}
    assert (await made.client.head("/health")).status_code == 200


async def test_a_prefix_stands_before_every_route_and_opens_none() -> None:
    made = Bench(edge=Edge(prefix="/llm", keys=("k",)))
    assert (await made.get("/llm/health")).status_code == 401
    assert (await made.get("/llm/health", headers={"X-Api-Key": "k"})).json() == {"status": "ok"}
    assert (await made.get("/health")).status_code == 404


def test_keys_are_taken_from_either_header() -> None:
    from starlette.datastructures import Headers

    assert given_key(Headers({"authorization": "Bearer a", "x-api-key": "b"})) == "a"
    assert given_key(Headers({"authorization": "a"})) == "a"
    assert given_key(Headers({"authorization": "", "x-api-key": "b"})) == "b"
    assert may_pass(("a", "b"), "/props", Headers({"x-api-key": "b"}))
    assert not may_pass(("a", "b"), "/props", Headers({"x-api-key": "ü"}))
    assert may_pass((), "/props", Headers({}))
    assert may_pass(("a",), "/v1/health", Headers({}))


@pytest.mark.parametrize(
    ("edge", "origin", "allowed"),
    [
        (Edge(), "http://a.test", "http://a.test"),
        (Edge(), "", ""),
        (Edge(cors_origins="localhost"), "http://localhost:3000", "http://localhost:3000"),
        (Edge(cors_origins="localhost"), "http://127.0.0.1", "http://127.0.0.1"),
        (Edge(cors_origins="localhost"), "http://a.test", None),
        (Edge(cors_origins="localhost"), "http://[broken", None),
        (Edge(cors_origins="http://b.test"), "http://a.test", "http://b.test"),
        (Edge(cors_credentials=False), "http://a.test", "*"),
    ],
)
def test_origins(edge: Edge, origin: str, allowed: str | None) -> None:
    assert allow_origin(edge, origin) == allowed


async def test_credentials_can_be_off_and_headers_left_out() -> None:
    made = Bench(edge=Edge(cors_origins="localhost", cors_credentials=False))
    answer = await made.client.options("/props", headers={"Origin": "http://a.test"})
    assert "access-control-allow-origin" not in answer.headers
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["access-control-allow-headers"] == "*"


async def test_an_unforeseen_fault_has_an_envelope_and_the_common_headers() -> None:
    made = Bench()
    made.scheduler.slots = lambda: {}[1]  # type: ignore[method-assign]
    answer = await made.get("/slots", headers={"Origin": "http://a.test"})
    assert answer.json() == {"error": {"code": 500, "message": "internal error: KeyError", "type": "server_error"}}
    assert answer.headers["server"] == "llama.cpp"
    assert answer.headers["access-control-allow-origin"] == "http://a.test"


async def test_a_lost_engine_is_told_by_health() -> None:
    made = Bench()
    made.scheduler.healthy = False
    answer = await made.get("/health")
    assert (answer.status_code, message(answer)) == (503, "The engine has stopped")


async def test_without_a_page_the_root_is_unknown() -> None:
    answer = await Bench(edge=Edge(ui=False)).get("/")
    assert (answer.status_code, answer.json()) == (404, NOT_FOUND)
    page = await Bench().get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Stoker" in page.text


async def test_a_state_without_a_service_refuses() -> None:
    from stoker.core.errors import Unavailable

    with pytest.raises(Unavailable):
        State(Edge()).ready()


async def test_names_of_headers_are_printed_as_upstream_prints_them() -> None:
    response = await Bench().post("/completion", {"prompt": "Hi", "stream": True})
    names = [name.decode() for name, _ in response.headers.raw]
    assert sorted(names) == ["Access-Control-Allow-Origin", "Content-Type", "Server"]


async def test_no_generated_documentation_is_served() -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert (await Bench().get(path)).status_code == 404


async def test_the_lifespan_passes_the_gate() -> None:
    made, sent = Bench(loading=True), []
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> object:
        return messages.pop(0)

    async def send(message: object) -> None:
        sent.append(message)

    await made.app({"type": "lifespan", "app": made.app}, receive, send)  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_the_command_line_may_narrow_what_options_allows() -> None:
    made = Bench(edge=Edge(cors_methods="GET", cors_headers="X-Own"))
    headers = (await made.client.options("/completion")).headers
    assert (headers["Access-Control-Allow-Methods"], headers["Access-Control-Allow-Headers"]) == ("GET", "X-Own")
