"""How a server is reached: under a prefix, by TLS, by a Unix socket; keys from a file; pings while it is silent."""

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from live.process import ANY_PORT, COMMAND, START_SECONDS, Live, start

pytestmark = pytest.mark.mlx


def until_ready(live: Live, health: Callable[[], httpx.Response]) -> httpx.Response:
    """What /health says once the model is loaded."""
    deadline = time.monotonic() + START_SECONDS
    while (said := health()).status_code != 200:
        assert said.status_code == 503
        assert live.process.poll() is None, live.said
        assert time.monotonic() < deadline, live.said
        time.sleep(0.05)
    return said


def test_a_prefix_a_key_file_and_no_page(tiny_path: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# of the team\none\n\n two \n", encoding="utf-8")
    words = ("-m", str(tiny_path), "--api-prefix", "/llm", "--api-key-file", str(keys), "--api-key", "three", "--no-ui")
    live = start(words, tmp_path / "log", ready=False)
    assert live.url.endswith("/llm")
    key = {"Authorization": "Bearer two"}
    assert until_ready(live, lambda: httpx.get(f"{live.url}/health", headers=key)).json() == {"status": "ok"}
    for given, status in ((None, 401), ("one", 200), ("two", 200), ("three", 200), ("# of the team", 401), ("", 401)):
        headers = {} if given is None else {"X-Api-Key": given}
        assert httpx.get(f"{live.url}/props", headers=headers).status_code == status
    assert httpx.get(f"{live.url}/health").status_code == 401, "under a prefix no path is open, as upstream"
    assert httpx.get(f"{live.url}/", headers=key).status_code == 404
    assert httpx.get(live.url.removesuffix("/llm") + "/props", headers=key).status_code == 404
    assert "two" not in live.said
    live.stop()


def test_a_page_a_start_time_and_pings(tiny_path: Path, tmp_path: Path) -> None:
    live = start(("-m", str(tiny_path), "--metrics", "-np", "1", "--sse-ping-interval", "1"), tmp_path / "log")
    page = httpx.get(f"{live.url}/")
    assert "ready, 0 of 1 slots busy" in page.text
    assert "tiny.gguf" in page.text
    stamps = {httpx.get(f"{live.url}/metrics").headers["Process-Start-Time-Unix"] for _ in range(2)}
    assert len(stamps) == 1
    assert int(stamps.pop()) > 1.6e9
    asyncio.run(_hears_pings(live))
    live.stop()


async def _hears_pings(live: Live) -> None:
    """A stop string that keeps all text back makes a stream that has begun and says nothing."""
    said = [{"role": "user", "content": "ab"}]
    async with httpx.AsyncClient(base_url=live.url, timeout=60) as client:
        silent = {
            "n_predict": 4000,
            "ignore_eos": True,
            "grammar": 'root ::= "a"+',
            "stop": ["a" * 5000],
            "stream": True,
            "messages": said,
        }
        heard: list[str] = []
        async with client.stream("POST", "/v1/chat/completions", json=silent) as stream:
            async for line in stream.aiter_lines():
                heard.append(line)
                if line == ":" or len(heard) > 20000:
                    break
        assert ":" in heard


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_tls(tiny_path: Path, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    words = ("-m", str(tiny_path), "--ssl-key-file", str(key), "--ssl-cert-file", str(certificate))
    live = start(words, tmp_path / "log", ready=False)
    assert live.url.startswith("https://")
    context = ssl.create_default_context(cafile=str(certificate))
    with httpx.Client(base_url=live.url, verify=context) as client:
        until_ready(live, lambda: client.get("/health"))
        answer = client.post("/completion", json={"prompt": "ab", "n_predict": 3, "ignore_eos": True})
        assert answer.json()["tokens_predicted"] == 3
    live.stop()


def test_a_unix_socket(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    log = tmp_path / "log"
    with log.open("wb") as file:
        words = [*COMMAND, *ANY_PORT, "-m", str(tiny_path), "--host", str(path)]
        live = Live(subprocess.Popen(words, stderr=file, stdout=file), log)
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport, base_url="http://stoker", timeout=START_SECONDS) as client:
        while "listening on" not in live.said:
            time.sleep(0.05)
        until_ready(live, lambda: client.get("/health"))
        assert f"listening on unix:{path}" in live.said
        assert (
            client.post("/completion", json={"prompt": "ab", "n_predict": 3, "ignore_eos": True}).json()[
                "tokens_predicted"
            ]
            == 3
        )
    live.stop()
    assert not path.exists()
