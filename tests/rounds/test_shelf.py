"""Slots that are copied, kept, saved, restored and erased, through the engine, with and without a recurrent state."""

from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from rounds.harness import GREEDY, WARM, Wanted, alone
from stoker.core.errors import InvalidRequest, ServerFault
from stoker.core.request import Sampling
from stoker.core.request import Speculation as Wish
from stoker.core.work import Join, Keep, Outcome, Plan, PrefillWork, Release, SlotAction, SlotWork, StepWork
from stoker.models.sampling import Sampler
from stoker.models.slot_file import LEAD
from stoker.models.snapshot import Snapshot
from stoker.models.target import Target
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.engine import Engine
from stoker.rounds.shelf import UNUSABLE, Shelf
from stoker.rounds.sleeper import SleepingEngine
from stoker.rounds.speculator import Speculation, Speculator

pytestmark = pytest.mark.mlx

PROMPT = tuple(range(3, 40, 2))
OTHER = (99, 98, 97)
LAST = len(PROMPT) - 1
BOTH = pytest.mark.parametrize("family", ["llama", "lfm2", "qwen3_5"])


class Desk:
    """An engine and the plans that a test makes for it."""

    def __init__(self, target: Target, speculation: Speculation | None = None) -> None:
        self.target = target
        speculator = Speculator(speculation, target.context)
        self.engine = Engine(target, Sampler(target.vocab, []), frozenset(), speculator, shelf=Shelf(target, "tiny"))
        self.outcomes: list[Outcome] = []

    def tick(self, plan: Plan) -> list[Outcome]:
        got = self.engine.tick(plan)
        assert [outcome.error for outcome in got if outcome.error] == []
        self.outcomes += got
        return got

    def read(self, id: int, slot: int, prompt: tuple[int, ...] = PROMPT, sampling: Sampling = GREEDY) -> None:
        self.tick(Plan(join=(Join(id, slot, prompt, 0, sampling),), prefill=(PrefillWork(id, len(prompt) - 1),)))

    def say(self, *ids: int, count: int = 8, **more: object) -> dict[int, list[int]]:
        """So many tokens of each; the first plan brings what `more` says."""
        said: dict[int, list[int]] = {id: [] for id in ids}
        for n in range(3 * count):
            step = tuple(StepWork(id, count - len(said[id])) for id in ids if len(said[id]) < count)
            if not step:
                break
            for outcome in self.tick(Plan(step=step, **(more if n == 0 else {}))):  # type: ignore[arg-type]
                if outcome.id in said:
                    said[outcome.id] += outcome.tokens
        return said

    def act(self, slot: int, action: SlotAction, path: str = "", tokens: tuple[int, ...] = ()) -> Outcome:
        (outcome,) = self.engine.tick(Plan(slots=(SlotWork(77, slot, action, path, tokens),)))
        return outcome


def fresh(family: str, prompt: tuple[int, ...] = PROMPT, sampling: Sampling = GREEDY) -> list[int]:
    return alone(tiny.TARGETS[family], Wanted(prompt, 8, sampling))


def desk(family: str, slots: int = 3) -> Desk:
    return Desk(Target(tiny.TARGETS[family](), slots, 128))


@BOTH
def test_continuations_of_one_prompt_are_what_each_would_be_alone(family: str) -> None:
    it = desk(family)
    it.read(1, 0)
    warm = (WARM, Sampling(seed=8, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0))
    joins = tuple(Join(id, id - 1, PROMPT, LAST, warm[id - 2], source=0) for id in (2, 3))
    said = it.say(1, 2, 3, join=joins)
    assert said == {1: fresh(family), 2: fresh(family, sampling=warm[0]), 3: fresh(family, sampling=warm[1])}
    assert said[2] != said[3]


@BOTH
def test_a_copy_that_comes_too_late_is_read_again_and_right_all_the_same(family: str) -> None:
    it = desk(family)
    it.read(1, 0)
    first = it.say(1, count=4)
    late = it.say(1, 2, count=4, join=(Join(2, 2, PROMPT, LAST, GREEDY, source=0),))
    assert first[1] + late[1] == fresh(family)
    assert late[2] == fresh(family)[:4]


@BOTH
def test_kept_content_comes_back_into_another_slot_while_others_go_on(family: str) -> None:
    it = desk(family)
    it.read(1, 0)
    said = it.say(1)[1]
    content = (*PROMPT, *said[:-1])
    it.read(9, 1, OTHER)
    other = it.say(9, count=3)[9]
    join = Join(2, 0, OTHER, 0, GREEDY)
    more = it.say(9, count=1, release=(Release(1, len(content)),), keep=(Keep(0, 5),), join=(join,))[9]
    prompt = (*content, said[-1], 7)
    rest = it.say(
        9,
        3,
        count=4,
        join=(Join(3, 2, prompt, len(content), GREEDY, kept=5),),
        prefill=(PrefillWork(3, len(prompt) - 1),),
    )
    assert other + more + rest[9] == fresh(family, OTHER)
    assert rest[3] == fresh(family, prompt)[:4]


@BOTH
def test_a_row_that_shifts_goes_on_as_if_its_prompt_had_been_what_stays(family: str) -> None:
    it = desk(family)
    it.read(1, 0)
    said = it.say(1)[1]
    whole, spared = (*PROMPT, *said), 0 if it.target.recurrent else 4
    rest = (*whole[:spared], *whole[spared + 9 :])
    join = Join(1, 0, rest, spared, GREEDY)
    it.tick(Plan(release=(Release(1, spared),), join=(join,)))
    it.tick(Plan(prefill=(PrefillWork(1, len(rest) - 1),)))
    assert it.say(1)[1] == fresh(family, rest)


@BOTH
def test_what_was_dropped_or_could_not_be_kept_is_read_again(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_self: Target, _slot: int) -> Snapshot:
        raise MemoryError("no room")

    it = desk(family)
    it.read(1, 0)
    monkeypatch.setattr(Target, "snapshot", no_room)
    it.tick(Plan(release=(Release(1, LAST),), keep=(Keep(0, 5),), drop=(4,)))
    monkeypatch.undo()
    assert it.say(2, join=(Join(2, 0, PROMPT, LAST, GREEDY, kept=5),))[2] == fresh(family)


@BOTH
def test_a_saved_slot_is_restored_into_another_and_goes_on(family: str, tmp_path: Path) -> None:
    it, path = desk(family), str(tmp_path / "s")
    it.read(1, 0)
    said = it.say(1)[1]
    content = (*PROMPT, *said[:-1])
    it.tick(Plan(release=(Release(1, len(content)),)))
    saved = it.act(0, SlotAction.SAVE, path, content).filed
    assert saved is not None
    assert (saved.tokens, saved.size) == (content, Path(path).stat().st_size)
    assert saved.seconds > 0
    again = desk(family)
    restored = again.act(2, SlotAction.RESTORE, path).filed
    assert restored is not None
    assert (restored.tokens, restored.size) == (content, saved.size)
    prompt = (*content, said[-1], 7)
    more = again.say(3, join=(Join(3, 2, prompt, len(content), GREEDY),), prefill=(PrefillWork(3, len(prompt) - 1),))
    assert more[3] == fresh(family, prompt)


def test_a_restore_beside_rows_in_flight_disturbs_them_not(tmp_path: Path) -> None:
    it, path = desk("llama"), str(tmp_path / "s")
    it.read(1, 0)
    it.tick(Plan(release=(Release(1, LAST),)))
    it.act(0, SlotAction.SAVE, path, PROMPT[:LAST])
    it.read(2, 1)
    first = it.say(2, count=3)[2]
    work = (SlotWork(77, 2, SlotAction.RESTORE, path), SlotWork(78, 0, SlotAction.SAVE, path, PROMPT[:LAST]))
    rest = it.say(2, count=5, slots=work)[2]
    assert first + rest == fresh("llama")
    assert it.say(3, join=(Join(3, 2, PROMPT, LAST, GREEDY),))[3] == fresh("llama")


def test_an_erased_slot_is_empty() -> None:
    it = desk("lfm2")
    it.read(1, 0)
    it.tick(Plan(release=(Release(1, LAST),)))
    filed = it.act(0, SlotAction.ERASE, tokens=PROMPT[:LAST]).filed
    assert filed is not None
    assert (filed.tokens, filed.size) == (PROMPT[:LAST], 0)
    assert it.target.lengths == (0, 0, 0)


def test_a_file_that_is_cut_or_missing_or_too_long_leaves_the_slot_as_it_was(tmp_path: Path) -> None:
    it, whole = desk("lfm2"), tmp_path / "whole"
    it.read(1, 0)
    it.tick(Plan(release=(Release(1, LAST),)))
    it.act(0, SlotAction.SAVE, str(whole), PROMPT[:LAST])
    data = whole.read_bytes()
    header = LEAD.size + LEAD.unpack(data[: LEAD.size])[2]
    for cut in (*range(0, header + 1, 7), len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:cut])
        error = it.act(0, SlotAction.RESTORE, str(tmp_path / "cut")).error
        assert isinstance(error, InvalidRequest)
        assert error.message == UNUSABLE
    assert isinstance(it.act(0, SlotAction.RESTORE, str(tmp_path / "none")).error, InvalidRequest)
    small = Desk(Target(tiny.lfm2(), 1, LAST - 1))
    assert isinstance(small.act(0, SlotAction.RESTORE, str(whole)).error, InvalidRequest)
    assert it.target.lengths == (LAST, 0, 0)
    assert it.say(2, join=(Join(2, 0, PROMPT, LAST, GREEDY),))[2] == fresh("lfm2")


def test_what_cannot_be_saved_says_why(tmp_path: Path) -> None:
    it = desk("llama")
    it.read(1, 0)
    it.tick(Plan(release=(Release(1, LAST),)))
    error = it.act(0, SlotAction.SAVE, str(tmp_path / "none" / "s"), PROMPT[:LAST]).error
    assert isinstance(error, ServerFault)
    assert error.message == "Unable to save slot: No such file or directory"
    error = it.act(0, SlotAction.SAVE, str(tmp_path / "s"), PROMPT).error
    assert isinstance(error, ServerFault)
    assert error.message == "Unable to save slot: its content was lost"


@pytest.mark.parametrize("how", ["copy", "restore", "kept"])
def test_a_draft_model_forgets_a_slot_whose_content_came_from_elsewhere(how: str, tmp_path: Path) -> None:
    """Its own model as the draft: every proposal is right, unless its slot holds another sequence."""
    model = tiny.llama()
    target, draft = Target(model, 2, 128), Target(model, 2, 128)
    drafter = DraftModel(draft, target, most=3)
    it = Desk(target, Speculation({drafter.kind: drafter}, drafter.kind))
    it.read(1, 0)
    it.read(2, 1, OTHER * 7)
    it.tick(Plan(release=(Release(1, LAST), Release(2, LAST)), keep=(Keep(0, 5),)))
    if how == "restore":
        it.act(0, SlotAction.SAVE, str(tmp_path / "s"), PROMPT[:LAST])
        it.act(1, SlotAction.RESTORE, str(tmp_path / "s"))
    it.outcomes.clear()
    source, kept = 0 if how == "copy" else -1, 5 if how == "kept" else -1
    said = it.say(3, join=(Join(3, 1, PROMPT, LAST, GREEDY, source=source, kept=kept),))
    assert said[3] == fresh("llama")
    rounds = [outcome.round for outcome in it.outcomes if outcome.round is not None]
    assert rounds
    assert all(one.accepted == one.proposed for one in rounds)


def test_a_draft_model_reads_again_what_an_undrafted_row_left() -> None:
    model = tiny.llama()
    target = Target(model, 1, 128)
    drafter = DraftModel(Target(model, 1, 128), target, most=3)
    it = Desk(target, Speculation({drafter.kind: drafter}, drafter.kind))
    it.read(1, 0, OTHER * 7)
    undrafted = Join(2, 0, PROMPT, 0, GREEDY, speculation=Wish("none"))
    it.tick(Plan(release=(Release(1, 20),), join=(undrafted,), prefill=(PrefillWork(2, LAST),)))
    it.tick(Plan(release=(Release(2, LAST),)))
    it.outcomes.clear()
    assert it.say(3, join=(Join(3, 0, PROMPT, LAST, GREEDY),))[3] == fresh("llama")
    rounds = [outcome.round for outcome in it.outcomes if outcome.round is not None]
    assert rounds
    assert all(one.accepted == one.proposed for one in rounds)


def test_an_engine_that_slept_is_built_anew() -> None:
    built: list[nn.Module] = []

    def build() -> Engine:
        built.append(tiny.llama())
        target = Target(built[-1], 1, 128)
        return Engine(target, Sampler(target.vocab, []))

    engine = SleepingEngine(build(), build)
    join = Plan(join=(Join(1, 0, PROMPT, 0, GREEDY),), prefill=(PrefillWork(1, LAST),), step=(StepWork(1, 1),))
    before = [outcome.tokens for outcome in engine.tick(join)]
    built.clear()
    mx.clear_cache()
    held = mx.get_active_memory()
    engine.sleep()
    assert mx.get_active_memory() < held, "weights and slots are free"
    with pytest.raises(RuntimeError, match="not loaded"):
        engine.tick(join)
    engine.wake()
    assert [outcome.tokens for outcome in engine.tick(join)] == before
