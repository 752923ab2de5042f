"""Rows with different adapters on the real loop: each says what it says alone, drafted or not."""

from dataclasses import replace
from pathlib import Path

import pytest

from models import tiny
from models.test_adapters import adapter
from rounds.harness import GREEDY, WARM, Harness, Wanted
from rounds.oracle import Oracle
from rounds.test_speculation import how, lookup
from stoker.core.request import Sampling
from stoker.core.work import Plan, SlotAction, SlotWork
from stoker.models.adapters import Adapters
from stoker.models.target import Target
from stoker.rounds.shelf import Shelf

pytestmark = pytest.mark.mlx

PROMPT = (1, 2, 3, 4, 5)
SCALES = [(), (1.0, 0.0), (0.0, 1.0), (0.5, -0.5)]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("adapters")
    return [adapter(folder / "a"), adapter(folder / "b", seed=2)]


def target(paths: list[str], slots: int) -> Target:
    model = tiny.llama()
    return Target(model, slots, 512, adapters=Adapters(model, paths))


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_rows_with_different_adapters_share_rounds_and_say_what_they_say_alone(
    paths: list[str], sampling: Sampling
) -> None:
    wanted = [Wanted((*PROMPT, n), 60, sampling, join_at=3 * n, adapters=scales) for n, scales in enumerate(SCALES)]
    alone = [Harness(target(paths, 1)).run([replace(want, join_at=0)])[0] for want in wanted]
    assert alone[0] == Harness(Target(tiny.llama(), 1, 512)).run([replace(wanted[0], adapters=())])[0]
    assert len({tuple(tokens) for tokens in alone}) == len(SCALES)
    truth = {want.prompt: tokens for want, tokens in zip(wanted, alone, strict=True)}
    shared = target(paths, 4)
    for drafter in (None, Oracle(truth, error=0.3), lookup()):
        harness = Harness(shared, how(drafter) if drafter else None)
        assert list(harness.run(wanted).values()) == alone


def test_the_same_prompt_under_other_scales_is_another_answer_in_the_same_slot(paths: list[str]) -> None:
    one = target(paths, 1)
    said = [tuple(Harness(one).run([Wanted(PROMPT, 30, adapters=scales)])[0]) for scales in (*SCALES, *SCALES)]
    assert said[:4] == said[4:]
    assert len(set(said)) == len(SCALES)


def test_a_slot_file_is_of_its_scales(paths: list[str], tmp_path: Path) -> None:
    one = target(paths, 1)
    harness = Harness(one)
    harness.run([Wanted(PROMPT, 5, adapters=(1.0, 0.0))])
    harness.engine.tick(Plan())
    shelf = Shelf(one, "model", "adapters")
    tokens = tuple(range(one.lengths[0]))
    file = str(tmp_path / "f")

    def act(action: SlotAction, scales: tuple[float, ...], shelf: Shelf = shelf) -> bool:
        return shelf.act(SlotWork(1, 0, action, file, tokens, scales)).error is None

    assert act(SlotAction.SAVE, (1.0, 0.0))
    assert act(SlotAction.RESTORE, (1.0, 0.0))
    assert not act(SlotAction.RESTORE, ())
    assert not act(SlotAction.RESTORE, (0.5, 0.0))
    assert not act(SlotAction.RESTORE, (1.0, 0.0), Shelf(one, "model", "other adapters"))
    assert act(SlotAction.SAVE, ())
    assert act(SlotAction.RESTORE, (), Shelf(one, "model"))
