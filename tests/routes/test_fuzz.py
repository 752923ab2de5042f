"""Whatever JSON comes to whatever route, the answer is an answer: an envelope, never a traceback."""

import asyncio
import functools
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routes.fakes import Bench, FakeScheduler, says

PATHS = [
    "/completion",
    "/completions",
    "/v1/completions",
    "/chat/completions",
    "/v1/chat/completions",
    "/v1/chat/completions/input_tokens",
    "/apply-template",
    "/tokenize",
    "/detokenize",
    "/props",
    "/lora-adapters",
    "/embeddings",
    "/v1/rerank",
    "/infill",
    "/slots/0",
    "/nope",
]
FIELDS = [
    "prompt",
    "n_predict",
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "stop",
    "samplers",
    "logit_bias",
    "lora",
    "n",
    "n_cmpl",
    "stream",
    "stream_options",
    "n_probs",
    "logprobs",
    "top_logprobs",
    "grammar",
    "json_schema",
    "response_format",
    "messages",
    "tools",
    "tool_choice",
    "id_slot",
    "chat_template_kwargs",
    "reasoning_effort",
    "reasoning_format",
    "continue_final_message",
    "add_generation_prompt",
    "response_fields",
    "sse_ping_interval",
    "dry_sequence_breakers",
    "dry_base",
    "adaptive_decay",
    "ignore_eos",
    "verbose",
    "return_tokens",
    "return_progress",
    "echo",
    "timings_per_token",
    "content",
    "tokens",
    "add_special",
    "with_pieces",
    "t_max_predict_ms",
    "n_indent",
    "post_sampling_probs",
    "role",
]
NAMES = st.sampled_from([*FIELDS, "role", "content", "type", "text", "prompt_string", "self", "id", "scale"])
WORDS = st.sampled_from(["user", "assistant", "system", "text", "image_url", "json_schema", "required", "none", "p"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(NAMES, VALUES, max_size=5) | VALUES
LIKELY = st.fixed_dictionaries(
    {"prompt": st.just("p"), "messages": st.just([{"role": "user", "content": "Hi"}])},
    optional={name: VALUES for name in FIELDS if name not in ("prompt", "messages")},
)


@functools.cache
def _bench() -> Bench:
    return Bench(FakeScheduler(says("a", "b")))


async def _checked(path: str, body: Any) -> None:
    answer = await _bench().client.post(path, content=json.dumps(body).encode())
    assert answer.status_code in (200, 400, 404, 500, 501)
    assert "Traceback" not in answer.text
    assert "internal error" not in answer.text
    if answer.status_code != 200:
        assert set(answer.json()["error"]) >= {"code", "message", "type"}
    elif answer.headers["content-type"] != "text/event-stream":
        answer.json()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), BODIES)
def test_any_body_on_any_route_gets_an_envelope(path: str, body: Any) -> None:
    asyncio.run(_checked(path, body))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS[:7]), LIKELY)
def test_any_field_of_a_request_that_is_otherwise_right_gets_an_envelope(path: str, body: Any) -> None:
    asyncio.run(_checked(path, body))
