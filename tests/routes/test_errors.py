"""From what was raised to what a client reads."""

import json

import pytest

from routes.fakes import Bench
from stoker.core.errors import ContextExceeded, InvalidRequest, NotFound, ServerError, ServerFault, Unavailable
from stoker.routes.errors import envelope, error_response, fault, outer_envelope


def test_both_envelopes_say_the_same_in_their_own_order() -> None:
    error = InvalidRequest("no")
    inner, outer = envelope(error)["error"], outer_envelope(error)["error"]
    assert inner == outer == {"code": 400, "message": "no", "type": "invalid_request_error"}
    assert [list(one) for one in (inner, outer) if isinstance(one, dict)] == [
        ["code", "message", "type"],
        ["message", "type", "code"],
    ]


def test_a_full_context_brings_its_numbers() -> None:
    said = json.dumps(envelope(ContextExceeded(70, 64)))
    assert '"n_prompt_tokens": 70, "n_ctx": 64' in said


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [(Unavailable("busy", 3), 503, "3"), (Unavailable("busy"), 503, None), (NotFound("no"), 404, None)],
)
def test_who_may_come_again_is_told_when(error: ServerError, status: int, retry: str | None) -> None:
    response = error_response(error)
    assert (response.status_code, response.headers.get("retry-after")) == (status, retry)


def test_of_an_unforeseen_fault_the_client_learns_the_kind_and_the_log_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = fault(KeyError("secret"))
    assert isinstance(said, ServerFault)
    assert said.message == "internal error: KeyError"
    assert "secret" in caplog.text


async def test_a_fault_in_a_handler_is_an_envelope_with_the_common_headers() -> None:
    made = Bench()

    def breaks() -> list[object]:
        raise KeyError("secret")

    made.scheduler.slots = breaks  # type: ignore[assignment, method-assign]
    answer = await made.get("/slots", headers={"Origin": "http://a"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "internal error: KeyError")
    assert answer.headers["access-control-allow-origin"] == "http://a"
    assert answer.headers["server"] == "llama.cpp"
