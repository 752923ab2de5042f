"""Plain curl, whose lines on a terminal are what many scripts take apart."""

import json
import shutil
import subprocess

import pytest

from live.process import Live

pytestmark = pytest.mark.mlx

HEAD = b"\r\n\r\n"


def curl(*words: str) -> bytes:
    """What it prints, as it comes (`-N`), the head first (`-i`)."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("curl is not installed")
    return subprocess.run(
        [program, "-sSiN", "--noproxy", "*", *words], capture_output=True, timeout=60, check=True
    ).stdout


def test_a_stream_arrives_as_lines_of_data(tiny_server: Live) -> None:
    # Greedy: a random draw may be a special token, which has no text and so no frame.
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "stream": True, "ignore_eos": True,
            "temperature": 0}  # fmt: skip
    head, _, text = curl(f"{tiny_server.url}/v1/chat/completions", "-d", json.dumps(body)).partition(HEAD)
    first, *headers = head.decode().split("\r\n")
    assert first == "HTTP/1.1 200 OK"
    assert {"Server: llama.cpp", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"} <= set(headers)
    *frames, done, rest = text.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert len(chunks) == 6


def test_a_form_as_curl_sends_it_unasked_is_read_as_json(tiny_server: Live) -> None:
    """`-d` alone says application/x-www-form-urlencoded."""
    head, _, text = curl(
        f"{tiny_server.url}/completion", "-d", '{"prompt": "a", "n_predict": 2, "ignore_eos": true}'
    ).partition(HEAD)
    assert b"Content-Type: application/json; charset=utf-8" in head
    assert json.loads(text)["tokens_predicted"] == 2


def test_a_large_body_is_taken_without_a_wait(tiny_server: Live) -> None:
    """curl asks before it sends more than a mebibyte (`Expect: 100-continue`)."""
    body = json.dumps({"prompt": "a", "n_predict": 1, "unknown": "x" * (1 << 21)})
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "-d", "@-", f"{tiny_server.url}/completion"],
        input=body.encode(), capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["tokens_predicted"] == 1


def test_an_error_is_an_object_with_its_status(tiny_server: Live) -> None:
    head, _, text = curl(f"{tiny_server.url}/nope").partition(HEAD)
    assert head.startswith(b"HTTP/1.1 404")
    assert json.loads(text)["error"]["type"] == "not_found_error"
