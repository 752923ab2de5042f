"""No request can take the server down: spoilt bodies, broken connections, broken slot files.

`make test` runs a tenth of what `make prove` runs. Afterwards nothing is lost: /health is true, the slots are free, the
process has not grown, its log holds no traceback, and a normal completion answers as it did before.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import httpx
import pytest

from live import fuzz
from live.aborts import abort
from live.client import Body, Client, client_of
from live.models import TOOL_TEMPLATE
from live.process import Live, assert_calm, start
from stoker.models.slot_file import LEAD

pytestmark = [
    pytest.mark.mlx,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the process's size from /proc"),
]

SLOTS, CONTEXT = 4, 512
AT_ONCE = 8
WARM_UP = 300
WORDS = 12_000
UNFORESEEN = ("internal error", "the engine failed", "the engine has stopped")
FULL = pytest.mark.slow
GROWTH = 1.05
NORMAL: Body = {
    "prompt": "one two three one two", "n_predict": 24, "temperature": 0, "ignore_eos": True, "return_tokens": True,
    "cache_prompt": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("robust")


@pytest.fixture(scope="module")
def server(target_path: Path, folder: Path) -> Iterator[Live]:
    words = (
        "-m", str(target_path), "-np", str(SLOTS), "-c", str(SLOTS * CONTEXT), "-n", "16", "--metrics", "--props",
        "--slot-save-path", str(folder), "--draft-kind", "prompt-lookup", "--cache-ram", "4",
        "--embeddings", "--pooling", "mean", "--chat-template", TOOL_TEMPLATE,
    )  # fmt: skip
    live = start(words, folder / "log")
    asyncio.run(warm_up(live))
    yield live
    live.stop()


async def warm_up(live: Live) -> None:
    """Its allocators meet prompts and answers of all lengths, its tokenizer more words than it remembers."""
    random, gate = Random(1), asyncio.Semaphore(AT_ONCE)

    async def say(client: Client, prompt: int, count: int) -> None:
        async with gate:
            await client.complete("a" * prompt, count, cache_prompt=False)

    async with client_of(live.url) as client:
        words = " ".join(f"{random.getrandbits(64):x}" for _ in range(WORDS))
        await client.ask("/tokenize", {"content": words})
        lengths = [(random.randrange(1, CONTEXT - 40), random.randrange(1, 32)) for _ in range(WARM_UP)]
        await asyncio.gather(*(say(client, *pair) for pair in lengths))


@pytest.fixture
async def client(server: Live) -> AsyncIterator[Client]:
    async with client_of(server.url) as made:
        yield made


@dataclass
class Watch:
    """What a storm may not change."""

    live: Live
    client: Client
    answer: Body
    size: float = 0.0

    def settle(self) -> None:
        """From here on the process may not grow."""
        self.size = self.live.resident_mib

    async def check(self) -> None:
        await self.client.until_busy(0)
        await self.client.until_metric("llamacpp:requests_processing", 0)
        await self.client.until_metric("llamacpp:requests_deferred", 0)
        assert (await self.client.http.get("/health")).json() == {"status": "ok"}
        assert (await self.client.ask("/completion", NORMAL))["tokens"] == self.answer["tokens"]
        assert self.live.resident_mib <= GROWTH * self.size
        assert_calm(self.live.said)
        assert "unforeseen" not in self.live.said


@contextlib.asynccontextmanager
async def watched(live: Live, client: Client, size: float = 0.0) -> AsyncIterator[Watch]:
    """`size`: that of the process in MiB, where it has settled before."""
    watch = Watch(live, client, await client.ask("/completion", {**NORMAL, "id_slot": SLOTS - 1}), size)
    yield watch
    await watch.check()


# --- bodies


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=FULL)])
async def test_spoilt_bodies_are_answered_and_harm_nobody(server: Live, client: Client, count: int) -> None:
    where, statuses, gate = fuzz.paths(), Counter[int](), asyncio.Semaphore(AT_ONCE)

    async def send(seed: int) -> None:
        async with gate:
            case = fuzz.case(seed, where)
            answer = await client.http.post(case.path, content=case.body)
            statuses[answer.status_code] += 1
            judge(case, answer)

    async with watched(server, client) as watch:
        await asyncio.gather(*(send(seed) for seed in range(count // 4)))
        watch.settle()
        await asyncio.gather(*(send(seed) for seed in range(count // 4, count)))
    assert sum(statuses.values()) == count
    assert statuses[200] > count // 10, "some are right, so that what is behind the parsers is met too"
    assert statuses[400] > count // 10


def judge(case: fuzz.Case, answer: httpx.Response) -> None:
    """An answer in the protocol's forms, whose fault is the client's."""
    assert answer.status_code in (200, 400, 404, 500, 501, 503), (case, answer.text)
    if answer.headers["content-type"].startswith("text/event-stream"):
        assert not any(word in answer.text for word in UNFORESEEN), (case, answer.text)
    elif answer.status_code == 200:
        answer.json()
    else:
        error = answer.json()["error"]
        message = error["message"] if isinstance(error, dict) else error
        assert not message.startswith(UNFORESEEN), (case, answer.text)


# --- connections


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=FULL)])
async def test_connections_that_break_off_free_what_they_held(server: Live, client: Client, count: int) -> None:
    url, gate, moments = urlsplit(server.url), asyncio.Semaphore(AT_ONCE), Counter[str]()
    assert url.hostname is not None
    assert url.port is not None
    host, port = url.hostname, url.port

    async def leave(seed: int) -> None:
        async with gate:
            moments[await abort(host, port, seed)] += 1

    async with watched(server, client) as watch:
        await asyncio.gather(*(leave(seed) for seed in range(50)))
        await client.until_busy(0)
        watch.settle()
        files = server.open_files
        await asyncio.gather(*(leave(seed) for seed in range(50, 50 + count)))
        await client.until_busy(0)
        async with asyncio.timeout(10):
            while server.open_files > files + 2:
                await asyncio.sleep(0.05)
    assert len(moments) == 7, "every moment was met"


# --- slot files


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=FULL)])
async def test_a_slot_file_cut_at_any_byte_of_its_header_changes_nothing(
    server: Live, client: Client, folder: Path, step: int
) -> None:
    asked = {**NORMAL, "id_slot": 0, "cache_prompt": True}
    async with watched(server, client) as watch:
        watch.settle()
    await client.ask("/completion", asked)
    saved = await client.post("/slots/0?action=save", {"filename": "whole"})
    assert saved.status_code == 200
    whole = (folder / "whole").read_bytes()
    header = LEAD.size + LEAD.unpack(whole[: LEAD.size])[2]
    async with watched(server, client, watch.size):
        for cut in (*range(0, header + 1, step), header, len(whole) - 1):
            (folder / "cut").write_bytes(whole[:cut])
            refused = await client.post("/slots/0?action=restore", {"filename": "cut"})
            assert refused.status_code == 400, cut
        for place in range(0, header, step):
            (folder / "bent").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            refused = await client.post("/slots/0?action=restore", {"filename": "bent"})
            assert refused.status_code == 400, place
        again = await client.ask("/completion", asked)
        assert again["timings"]["cache_n"] == again["tokens_evaluated"] - 1, "the slot holds what it held"
    restored = await client.post("/slots/1?action=restore", {"filename": "whole"})
    assert restored.json()["n_restored"] == saved.json()["n_saved"]
