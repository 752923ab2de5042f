"""The process's life around a model: it is there at once, the model comes meanwhile, and the end is orderly."""

import asyncio
from pathlib import Path

import pytest

from gguf_samples import sample, write
from stoker.core.errors import StartError, Unavailable
from stoker.core.request import Limits, Request
from stoker.host import Host
from stoker.options.arguments import parse
from stoker.settings import Settings, options, settings

pytestmark = pytest.mark.mlx


def words(*more: str) -> Settings:
    return settings(parse(more, {}, options()).given, {})


async def until_ready(host: Host) -> None:
    async with asyncio.timeout(30):
        while host.state.service is None:
            assert host.failure is None
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("host") / "tiny.gguf", sample("llama"))


async def test_the_model_comes_while_the_process_already_answers(model: Path) -> None:
    gave_up: list[bool] = []
    host = Host(words("-m", str(model), "-c", "64", "-np", "1", "--api-prefix", "/x"), lambda: gave_up.append(True))
    assert host.state.edge.prefix == "/x"
    async with host.lifespan(None):
        with pytest.raises(Unavailable, match="Loading model"):
            host.state.ready()
        await until_ready(host)
        service = host.state.ready()
        assert (service.slots, service.context, service.model) == (1, 64, "tiny.gguf")
        assert service.scheduler.healthy
    assert (host.failure, gave_up) == (None, [])
    assert not service.scheduler.healthy


async def test_what_the_command_line_says_reaches_the_routes(model: Path) -> None:
    host = Host(words("-m", str(model), "-c", "64", "-n", "7", "-a", "one,two", "--temp", "0.3"), lambda: None)
    async with host.lifespan(None):
        await until_ready(host)
        service = host.state.ready()
    assert service.aliases == ("one", "two")
    assert service.limits == Limits(predict=7)
    assert service.sampling.temperature == 0.3


async def test_a_model_that_is_missing_is_a_failure_that_ends_the_process(tmp_path: Path) -> None:
    gave_up = asyncio.Event()
    host = Host(words("-m", str(tmp_path / "none.gguf")), gave_up.set)
    async with host.lifespan(None):
        await asyncio.wait_for(gave_up.wait(), 30)
    assert isinstance(host.failure, StartError)
    assert "none.gguf" in str(host.failure)


async def test_running_requests_may_finish_and_new_ones_are_refused(model: Path) -> None:
    host = Host(words("-m", str(model), "-c", "256", "-np", "1"), lambda: None)
    async with host.lifespan(None):
        await until_ready(host)
        scheduler = host.state.ready().scheduler
        stream = scheduler.submit(Request(1, (1, 2, 3), 0.0, limits=Limits(predict=40)))
        finishing = asyncio.create_task(host.finish())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="shutting down"):
            scheduler.submit(Request(2, (1, 2), 0.0))
        events = [event async for event in stream]
        await finishing
    assert type(events[-1]).__name__ == "Finished"


async def test_the_end_may_come_before_the_model_does(model: Path) -> None:
    host = Host(words("-m", str(model)), lambda: None)
    async with host.lifespan(None):
        await asyncio.sleep(0)
    assert host.state.service is None
    assert host.failure is None
