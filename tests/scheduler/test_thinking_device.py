"""Forced words on a real engine: the answer goes on as if the prompt had ended with them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from mlx import nn

from fakes import Inline
from models import tiny
from stoker.core.events import Finished
from stoker.core.request import Limits, Request, Sampling, ThoughtLimit
from stoker.core.work import Traits
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.engine import Engine
from stoker.scheduler.scheduler import Scheduler, Vocabulary

pytestmark = pytest.mark.mlx

PROMPT, ENDING = (5, 9, 2, 7, 11), (3, 4)
FAMILIES = {"llama": tiny.llama, "lfm2": tiny.lfm2, "qwen3_5": tiny.qwen3_5}


def piece(token: int, special: bool) -> bytes:
    return b"</think>" if token == ENDING[-1] else f" {token}".encode()


async def answers(model: nn.Module, requests: list[Request]) -> list[tuple[int, ...]]:
    """All of them at the same time."""
    target = Target(model, len(requests), 64)
    engine = Engine(target, Sampler(target.vocab, []))
    traits = Traits(target.slots, target.context, target.recurrent)
    scheduler = Scheduler(engine, Inline(time.monotonic), traits, Vocabulary(piece, frozenset()))
    task = asyncio.create_task(scheduler.run())
    streams = [scheduler.submit(request) for request in requests]
    ends = [[event async for event in stream][-1] for stream in streams]
    await scheduler.stop()
    await asyncio.wait_for(task, 10)
    assert all(isinstance(end, Finished) for end in ends)
    return [end.tokens for end in ends if isinstance(end, Finished)]


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=0), Sampling(seed=3, temperature=1.0, top_k=0, top_p=1, min_p=0)]
)
async def test_an_answer_goes_on_behind_forced_words_as_behind_a_prompt(
    make: Callable[[], nn.Module], sampling: Sampling
) -> None:
    model = make()
    limit = ThoughtLimit("<think>", ("</think>",), ENDING, budget=4, inside=True)
    base = Request(1, PROMPT, time.monotonic(), sampling, Limits(predict=14))
    (free, bounded) = await answers(model, [base, replace(base, id=2, thought=limit)])
    assert bounded[:6] == (*free[:4], *ENDING)
    assert len(bounded) == 14
    told = replace(base, id=3, prompt=(*PROMPT, *bounded[:6]), limits=Limits(predict=8))
    assert await answers(model, [told]) == [bounded[6:]]
