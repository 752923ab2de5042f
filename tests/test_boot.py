"""Booting a tiny model: what stands ready afterwards, and what is refused with one line."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gguf_samples import VOCAB, sample, write
from stoker import boot
from stoker.boot import Booted
from stoker.core.errors import StartError
from stoker.core.events import Finished
from stoker.core.request import Limits, Request, Sampling
from stoker.options.arguments import parse
from stoker.scheduler.device import Device
from stoker.settings import Settings, options, settings

pytestmark = pytest.mark.mlx

MODEL_CONTEXT = 512


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = sample("llama", max_position_embeddings=MODEL_CONTEXT)
    return write(tmp_path_factory.mktemp("boot") / "tiny.gguf", made)


@dataclass
class Boots:
    """Boots the model with more words; its measurements are kept in a folder of its own."""

    model: Path
    cache: Path
    device: Device

    def settings(self, *words: str) -> Settings:
        given = parse(("-m", str(self.model), *words), {}, options()).given
        return settings(given, {"XDG_CACHE_HOME": str(self.cache)})

    async def __call__(self, *words: str) -> Booted:
        return await boot.boot(self.settings(*words), self.device)


@pytest.fixture
async def boots(model: Path, tmp_path: Path) -> AsyncIterator[Boots]:
    device = Device()
    yield Boots(model, tmp_path, device)
    device.close()


async def test_a_booted_server_knows_its_model_and_answers(boots: Boots) -> None:
    import asyncio

    it = await boots("-np", "2", "-c", "128")
    assert (it.slots, it.context, it.info.family, it.info.vocab) == (2, 64, "llama", VOCAB)
    assert (it.pooling, it.budget(), it.drafting.kind) == (None, None, None)
    running = asyncio.create_task(it.scheduler.run())
    request = Request(1, (1, 2, 3), 0.0, Sampling(temperature=0), Limits(predict=4))
    last = [event async for event in it.scheduler.submit(request)][-1]
    assert isinstance(last, Finished)
    assert len(last.tokens) == 4
    await it.scheduler.stop()
    await running


async def test_without_a_size_a_slot_holds_what_the_model_was_trained_for(boots: Boots) -> None:
    assert (await boots("-np", "1", "-c", "0")).context == MODEL_CONTEXT


async def test_slots_shrink_to_the_memory_unless_their_size_was_asked_for(
    boots: Boots, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    column = 2 * 2 * 2 * 16 * 4  # keys and values, layers, heads, their width, bytes
    monkeypatch.setattr(boot, "available", lambda: 300 * column)
    it = await boots("-np", "1", "-c", "0")
    assert it.context == 256
    assert "each slot gets 256 tokens instead" in caplog.text
    with pytest.raises(StartError, match=r"1 slots of 512 tokens need .* are free: choose a smaller --ctx-size"):
        await boots("-np", "1", "-c", "512")
    monkeypatch.setattr(boot, "available", lambda: 10 * column)
    with pytest.raises(StartError, match="choose a smaller"):
        await boots("-np", "1", "-c", "0")


async def test_a_grammar_of_the_command_line_that_cannot_be_followed_ends_the_start(boots: Boots) -> None:
    with pytest.raises(StartError, match="the grammar of the command line cannot be followed"):
        await boots("--grammar", "root ::= nobody")


async def test_a_drafter_brings_its_budget_and_says_how_exact_it_is(boots: Boots) -> None:
    it = await boots("-np", "2", "-c", "256", "--draft-kind", "prompt-lookup")
    view = it.budget()
    assert view is not None
    assert view.costs
    assert "exactness" in it.about
    assert list(boots.cache.rglob("*.json")), "what was measured is kept"


async def test_embeddings_are_pooled_as_asked(boots: Boots) -> None:
    assert str((await boots("--embeddings", "--pooling", "cls", "-c", "64")).pooling) == "cls"


async def test_a_model_that_is_not_there_ends_the_start(boots: Boots) -> None:
    boots.model = boots.model.with_name("none.gguf")
    with pytest.raises(StartError):
        await boots()


def test_the_prompt_cache_takes_half_of_what_is_left_unless_a_size_was_asked_for(
    boots: Boots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "available", lambda: 100 * boot.MIB)
    for words, size in (((), 50), (("--cache-ram", "70"), 70), (("--cache-ram", "-1"), -1), (("--cache-ram", "0"), 0)):
        assert boot.policy(boots.settings(*words)).cache == size * boot.MIB


def test_a_progress_bar_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    with boot.loading("x") as advance:
        advance(0.5)
        advance(1.0)
    assert capsys.readouterr().err == ""
