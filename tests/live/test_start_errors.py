"""What keeps a server from starting: one line on standard error, exit status 1, through the real command line."""

import socket
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Kind

from gguf_samples import finish, random_blocks, sample, write, write_with
from live.client import client_of
from live.process import refusal, start

pytestmark = pytest.mark.mlx


def truncated(tmp_path: Path) -> Path:
    path = write(tmp_path / "truncated.gguf", sample("llama"))
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def wrong_magic(tmp_path: Path) -> Path:
    path = write(tmp_path / "magic.gguf", sample("llama"))
    path.write_bytes(b"FUGG" + path.read_bytes()[4:])
    return path


def no_weights(tmp_path: Path) -> Path:
    path = tmp_path / "directory"
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "llama"}')
    return path


def unknown_architecture(tmp_path: Path) -> Path:
    path = tmp_path / "unknown.gguf"
    writer = gguf.GGUFWriter(path, "steam_engine")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), np.float32))
    finish(writer)
    return path


def missing(tmp_path: Path) -> Path:
    return tmp_path / "no.gguf"


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        (truncated, "truncated"),
        (wrong_magic, "magic"),
        (no_weights, "holds no weights"),
        (unknown_architecture, "steam_engine"),
        (missing, "no model at"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_one_line_and_status_1(
    model: Callable[[Path], Path], cause: str, tmp_path: Path
) -> None:
    end = refusal(("-m", str(model(tmp_path)), "--port", "0"))
    assert end.status == 1
    assert len(end.errors) == 1, end.errors
    assert end.errors[0].startswith("error: ")
    assert cause in end.errors[0]


def test_a_port_in_use_is_one_line_and_status_1(tiny_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        end = refusal(("-m", str(tiny_path), "--port", str(port)))
    assert (end.status, len(end.errors)) == (1, 1)
    assert f"cannot listen on 127.0.0.1:{port}" in end.errors[0]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("-c", "many"), "-c takes a whole number"),
        (("--no-such-option",), "--no-such-option"),
        (("-np", "2", "-c", "99999999999"), "-c takes a whole number"),
        (("-np", "2", "-c", "2000000000"), "choose a smaller --ctx-size or fewer --parallel"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_one_line_and_status_1(
    words: tuple[str, ...], cause: str, tiny_path: Path
) -> None:
    end = refusal(("-m", str(tiny_path), "--port", "0", *words))
    assert end.status == 1
    assert len(end.errors) == 1, end.errors
    assert end.errors[0].startswith("error: ")
    assert cause in end.errors[0]


async def test_a_file_of_k_quants_serves(tmp_path: Path) -> None:
    made = sample("llama", hidden_size=256, intermediate_size=256, head_dim=64)
    path = tmp_path / "k.gguf"
    write_with(path, made, "ffn_up", random_blocks(Kind.Q4_K, 256, 256), Kind.Q4_K)
    live = start(("-m", str(path), "-np", "1"), tmp_path / "log")
    async with client_of(live.url) as client:
        answer = await client.complete("ab", 6, ignore_eos=True)
        assert answer["tokens_predicted"] == 6
    live.stop()
