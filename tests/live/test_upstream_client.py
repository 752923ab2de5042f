"""llama.cpp's own Python test client, as `make upstream` fetched it, in its own Python."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compat import upstream_source
from live.process import Live

pytestmark = [pytest.mark.mlx, pytest.mark.smollm2]

SCRIPT = """
import contextlib, io, json
from utils import ServerProcess, ServerError

server = ServerProcess()
chat = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8, "temperature": 0}
told = {}
with contextlib.redirect_stdout(io.StringIO()):
    server.start()
    told["health"] = server.make_request("GET", "/health").body
    told["whole"] = server.make_any_request("POST", "/v1/chat/completions", chat)
    told["stream"] = server.make_any_request(
        "POST", "/v1/chat/completions", {**chat, "stream": True, "stream_options": {"include_usage": True}}
    )
    native = {"prompt": "One, two,", "n_predict": 4, "temperature": 0, "stream": True}
    told["native"] = list(server.make_stream_request("POST", "/completion", native))
    told["options"] = server.make_request("OPTIONS", "/completion", headers={"Origin": "http://a.test"}).headers
    try:
        list(server.make_stream_request("POST", "/completion", {**native, "n_predict": "many"}))
    except ServerError as error:
        told["error"] = [error.code, error.body]
    server.stop()
print(json.dumps(told))
"""


def parts() -> tuple[Path, Path]:
    found = upstream_source.present(upstream_source.CACHE)
    if found is None:
        pytest.skip("llama.cpp's tests are not here: `make upstream` fetches them")
    return found


@pytest.fixture(scope="module")
def told(smollm2_server: Live) -> dict[str, Any]:
    folder, python = parts()
    environ = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "DEBUG_EXTERNAL": "1",
        "PORT": smollm2_server.url.split(":")[-1],
    }
    done = subprocess.run(
        [str(python), "-c", SCRIPT], env=environ, capture_output=True, timeout=60, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_finds_the_server_well(told: dict[str, Any]) -> None:
    assert told["health"] == {"status": "ok"}
    assert told["options"]["Access-Control-Allow-Origin"] == "http://a.test"


def test_a_stream_says_what_a_whole_answer_says(told: dict[str, Any]) -> None:
    content = told["whole"]["choices"][0]["message"]["content"]
    assert "Paris" in content
    assert told["stream"]["choices"][0]["message"]["content"] == content


def test_native_frames_end_with_the_whole_object(told: dict[str, Any]) -> None:
    *frames, last = told["native"]
    assert [len(frame["tokens"]) for frame in frames] == [1] * 4
    assert last["stop_type"] == "limit"


def test_an_error_has_its_status_and_its_body(told: dict[str, Any]) -> None:
    code, body = told["error"]
    assert (code, body["error"]["type"]) == (400, "invalid_request_error")
