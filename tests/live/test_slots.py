"""Slot files, context shift and sleep in a process of its own."""

import time
from pathlib import Path

import httpx
import pytest

from live.process import Live, start

pytestmark = pytest.mark.mlx

WORDS = "the quick brown fox jumps over the lazy dog"


@pytest.fixture
def words(tiny_path: Path, tmp_path: Path) -> tuple[str, ...]:
    return ("-m", str(tiny_path), "-np", "2", "-c", "256", "--context-shift", "--slot-save-path", str(tmp_path))


def complete(live: Live, **body: object) -> dict[str, object]:
    asked = {"prompt": WORDS, "temperature": 0, "n_predict": 8, "ignore_eos": True, **body}
    answer = httpx.post(f"{live.url}/completion", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def act(live: Live, slot: int, action: str) -> httpx.Response:
    return httpx.post(f"{live.url}/slots/{slot}?action={action}", json={"filename": "s"}, timeout=60)


def cached(answer: dict[str, object]) -> object:
    timings = answer["timings"]
    assert isinstance(timings, dict)
    return timings["cache_n"]


def test_a_slot_outlives_its_server_and_a_broken_file_harms_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    first = start(words, tmp_path / "log")
    text = complete(first, id_slot=0)["content"]
    saved = act(first, 0, "save").json()
    first.stop()
    second = start(words, tmp_path / "log2")
    restored = act(second, 1, "restore").json()
    assert restored["n_restored"] == saved["n_saved"]
    assert restored["n_read"] == saved["n_written"] == (tmp_path / "s").stat().st_size
    again = complete(second, id_slot=1)
    assert (again["content"], cached(again)) == (text, len(WORDS) - 1)
    whole = (tmp_path / "s").read_bytes()
    for cut in (0, 8, 19, 20, 300, len(whole) - 1):
        (tmp_path / "s").write_bytes(whole[:cut])
        assert act(second, 1, "restore").status_code == 400
    assert cached(complete(second, id_slot=1)) == len(WORDS) - 1
    second.stop()


def test_a_full_slot_shifts_and_a_server_that_idles_sleeps_and_wakes(words: tuple[str, ...], tmp_path: Path) -> None:
    live = start((*words, "--sleep-idle-seconds", "1"), tmp_path / "log")
    long = complete(live, n_predict=300, n_keep=4)
    assert (long["tokens_predicted"], long["truncated"], long["stop_type"]) == (300, True, "limit")
    assert complete(live, n_predict=300, n_keep=4)["content"] == long["content"]
    deadline = time.monotonic() + 20
    while not httpx.get(f"{live.url}/props").json()["is_sleeping"]:
        assert time.monotonic() < deadline, live.said
        time.sleep(0.1)
    assert httpx.get(f"{live.url}/health").json() == {"status": "ok"}
    assert complete(live, n_predict=300, n_keep=4)["content"] == long["content"]
    assert httpx.get(f"{live.url}/props").json()["is_sleeping"] is False
    live.stop()
