"""A server's life as its operator sees it: loading, idle, the end."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from live.client import Client, client_of
from live.process import Live, assert_calm, start
from stoker.host import GRACE

pytestmark = pytest.mark.mlx

ENDLESS = {"prompt": "ab", "n_predict": 4000, "temperature": 0, "ignore_eos": True}


@pytest.mark.smollm2
def test_the_port_answers_503_until_the_model_is_loaded(smollm2_server: Live) -> None:
    statuses = [response.status_code for response in smollm2_server.loading]
    assert statuses == [503] * len(statuses)
    assert statuses, "the port was open before the model was ready"
    assert smollm2_server.loading[0].json() == {
        "error": {"message": "Loading model", "type": "unavailable_error", "code": 503}
    }
    assert httpx.get(f"{smollm2_server.url}/health").json() == {"status": "ok"}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processor time from /proc")
async def test_an_idle_server_uses_no_processor_time(tiny_server: Live) -> None:
    async with client_of(tiny_server.url) as client:
        await client.complete("ab", 4)
        ticks = await client.ticks()
        before = tiny_server.cpu_seconds
        await asyncio.sleep(2.0)
        assert tiny_server.cpu_seconds - before <= 0.04
        assert await client.ticks() == ticks


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_end_lets_short_work_finish_and_cuts_long_work(
    number: signal.Signals, tiny_words: tuple[str, ...], tmp_path: Path
) -> None:
    live = start(tiny_words, tmp_path / "log")
    async with client_of(live.url) as client:
        short = {**ENDLESS, "n_predict": 300}
        work: list[asyncio.Task[Any]] = [asyncio.create_task(client.ask("/completion", short))]
        await client.until_busy(1)
        if number is signal.SIGTERM:  # the long work takes the whole grace time: once is enough
            work.append(asyncio.create_task(cut_off(client)))
            await client.until_busy(2)
            work.append(asyncio.create_task(client.post("/completion", ENDLESS)))
            await client.until_metric("llamacpp:requests_deferred", 1)
        live.signal(number)
        began = asyncio.get_running_loop().time()
        assert await asyncio.to_thread(live.wait, GRACE + 5) == 0
        assert asyncio.get_running_loop().time() - began < GRACE + 2
        answers = await asyncio.gather(*work)
    assert answers[0]["tokens_predicted"] == short["n_predict"]
    assert_calm(live.said)
    if len(answers) > 1:
        assert answers[2].status_code == 503


async def cut_off(client: Client) -> None:
    """A stream that the end of the server breaks off with an error frame, and not with a finish."""
    async with client.stream("/completion", {**ENDLESS, "n_predict": -1}) as stream:
        await stream.rest()
        assert stream.frames[-1]["error"]["code"] == 503, "the server is too fast for this test"


@pytest.mark.smollm2
def test_a_server_can_be_ended_while_it_loads(smollm2_path: Path, tmp_path: Path) -> None:
    live = start(("-m", str(smollm2_path)), tmp_path / "log", ready=False)
    assert httpx.get(f"{live.url}/health").status_code == 503
    live.stop()
    assert "ready" not in live.said
