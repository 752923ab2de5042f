"""The application's routes, and the ways in which a server cannot begin to listen."""

import socket
from pathlib import Path

import pytest

from routes.fakes import Bench
from stoker.app import serve
from stoker.core.errors import StartError
from stoker.options.arguments import parse
from stoker.routes.service import Edge
from stoker.settings import Settings, options, settings

pytestmark = pytest.mark.mlx


def words(*more: str) -> Settings:
    return settings(parse(more, {}, options()).given, {})


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/redoc", "/completion/"])
async def test_nothing_of_the_framework_is_mounted(path: str) -> None:
    assert (await Bench().get(path)).status_code == 404


async def test_a_prefix_stands_before_every_route() -> None:
    made = Bench(edge=Edge(prefix="/llm"))
    assert (await made.get("/llm/props")).status_code == 200
    assert (await made.get("/props")).status_code == 404


def test_a_port_that_is_taken_ends_the_start_before_a_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port}: .*--host and --port choose"):
            serve(words("-m", "none.gguf", "--port", port))


def test_a_socket_file_where_none_can_be_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot listen on"):
        serve(words("-m", "none.gguf", "--host", str(tmp_path / "none" / "x.sock")))
