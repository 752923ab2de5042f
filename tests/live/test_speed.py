"""Demands C2, D7 and D8 by the clock: company and drafting do not make a server slower.

The best of some runs counts: what else the machine does only adds time. The exact promise (0.97 of plain decoding) is
proved on a scripted clock by tests/rounds/test_budget.py, and measured by `stoker bench`.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from live.client import Body, Client, client_of
from live.process import Live

pytestmark = pytest.mark.mlx

TRIES = 12
PROMISE = 0.97
PLAIN: Body = {"speculative": {"kind": "none"}}
PROSE = (
    "The harbour lay quiet under a low sky. Two boats had come in before dawn, and their crews stood on the quay with "
    "their collars up, saying little. Nobody had expected the wind to turn so early in the year."
)
PROMPTS = {
    "prose": PROSE,
    "source": "def area(w, h):\n    return w * h\n\n\ndef volume(w, h, d):\n    return area(w, h) * d\n\n\ndef mass(",
    "copy": f"{PROSE}\n\nThe same once more:\n{PROSE[:60]}",
    "json": '[{"id": 1, "name": "a", "tags": []}, {"id": 2, "name": "b", "tags": []}, {"id": 3, "na',
}


@pytest.fixture
async def client(drafting_servers: dict[str, Live]) -> AsyncIterator[Client]:
    async with client_of(drafting_servers["prompt-lookup"].url) as made:
        yield made
        await made.until_busy(0)


def body(seed: str, tokens: int, count: int) -> Body:
    letters = random.Random(seed)
    prompt = "".join(letters.choice("abcdefghij ") for _ in range(tokens))
    return {"prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": True, "cache_prompt": False}


async def timed(client: Client, bodies: list[Body], *, together: bool) -> float:
    """Seconds from the first request to the last answer."""
    began = time.monotonic()
    if together:
        await asyncio.gather(*(client.ask("/completion", one) for one in bodies))
    else:
        for one in bodies:
            await client.ask("/completion", one)
    return time.monotonic() - began


async def test_c2_two_at_once_are_not_slower_than_one_after_the_other(client: Client) -> None:
    bodies = [{**body(f"c2 {n}", 1000, 128), **PLAIN} for n in range(2)]
    runs = [(await timed(client, bodies, together=True), await timed(client, bodies, together=False)) for _ in range(3)]
    assert min(both for both, _ in runs) <= 1.1 * min(turns for _, turns in runs)


async def test_c2_more_rows_never_make_less_text_a_second(client: Client) -> None:
    speeds: dict[int, float] = {}
    for rows in (1, 2, 4, 8):
        bodies = [{**body(f"rows {n}", 16, 128), **PLAIN} for n in range(rows)]
        speeds[rows] = rows / min([await timed(client, bodies, together=True) for _ in range(3)])
    assert min(speeds.values()) == speeds[1]


@pytest.mark.parametrize("kind", PROMPTS)
async def test_d8_drafting_never_costs(client: Client, kind: str) -> None:
    asked: Body = {**body("", 0, 256), "prompt": PROMPTS[kind]}
    assert await ratio(client, [asked]) >= PROMISE


async def test_d7_drafted_rows_together_are_as_fast_as_plain_ones(client: Client) -> None:
    bodies = [{**body("", 0, 96), "prompt": "one two three " * n} for n in (3, 9, 27, 81)]
    assert await ratio(client, bodies) >= PROMISE


async def ratio(client: Client, bodies: list[Body]) -> float:
    """Speed with a drafter over speed without: the best times of runs by turns, as many as it takes to be sure."""
    plain = [{**one, **PLAIN} for one in bodies]
    best = with_drafter = without = float("inf")
    for run in range(TRIES):
        with_drafter = min(with_drafter, await timed(client, bodies, together=True))
        without = min(without, await timed(client, plain, together=True))
        best = without / with_drafter
        if run >= 2 and best >= PROMISE:
            break
    return best
