"""Two servers that the tests of this folder share: SmolLM2, and a tiny random model where the text does not matter."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gguf_samples import sample, write
from live.client import Client, client_of
from live.models import tiny as tiny_bytes
from live.process import Live, start

SMOLLM2_SLOTS, SMOLLM2_CONTEXT = 16, 1024
TINY_SLOTS, TINY_CONTEXT = 2, 4096
TINY_QUEUE = 3
NUDGE = 0.01


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama of two layers that reads printable ASCII, with room for long answers."""
    return write(tmp_path_factory.mktemp("tiny") / "tiny.gguf", sample("llama", max_position_embeddings=TINY_CONTEXT))


@pytest.fixture(scope="session")
def target_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama whose tokens are bytes."""
    return tiny_bytes(tmp_path_factory.mktemp("target") / "target.gguf")


@pytest.fixture(scope="session")
def drafting_servers(target_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Live]]:
    """Two on that model, by what drafts; the draft model is the target with its weights nudged."""
    folder = tmp_path_factory.mktemp("drafting")
    nudged = tiny_bytes(folder / "nudged.gguf", nudge=NUDGE)
    common = ("-m", str(target_path), "-np", "8", "-c", str(8 * TINY_CONTEXT), "--metrics", "--spec-draft-n-max", "16")
    words = {"prompt-lookup": ("--draft-kind", "prompt-lookup"), "draft-model": ("-md", str(nudged))}
    made = {kind: start((*common, *more), folder / kind) for kind, more in words.items()}
    yield made
    for live in made.values():
        live.stop()


@pytest.fixture(scope="session")
def smollm2_server(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    words = (
        "-m", str(smollm2_path), "-np", str(SMOLLM2_SLOTS), "-c", str(SMOLLM2_SLOTS * SMOLLM2_CONTEXT),
        "--metrics", "--slots", "--props", "--alias", "smollm2",
    )  # fmt: skip
    live = start(words, tmp_path_factory.mktemp("smollm2") / "log")
    yield live
    live.stop()


@pytest.fixture(scope="session")
def tiny_words(tiny_path: Path) -> tuple[str, ...]:
    """The command line of a server on the tiny model."""
    return (
        "-m", str(tiny_path), "-np", str(TINY_SLOTS), "-c", str(TINY_SLOTS * TINY_CONTEXT), "--metrics",
        "--max-queue-depth", str(TINY_QUEUE), "--alias", "tiny",
    )  # fmt: skip


@pytest.fixture(scope="session")
def tiny_server(tiny_words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    live = start(tiny_words, tmp_path_factory.mktemp("tiny-server") / "log")
    yield live
    live.stop()


@pytest.fixture
async def smollm2(smollm2_server: Live) -> AsyncIterator[Client]:
    async with client_of(smollm2_server.url) as client:
        yield client
        await client.until_busy(0)


@pytest.fixture
async def tiny(tiny_server: Live) -> AsyncIterator[Client]:
    async with client_of(tiny_server.url) as client:
        yield client
        await client.until_busy(0)
