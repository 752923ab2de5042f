"""What the command line says about drafting becomes drafters, or one clear line."""

import json
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from gguf_samples import sample, write
from models import tiny
from stoker.acceptance.governor import Gated, Graded
from stoker.acceptance.select import Setting
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.load import load
from stoker.models.shelf import Subject as Measured
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.assembly import Subject, assemble, seed
from stoker.rounds.budget import Budget
from stoker.rounds.kinds import draft_model, lookup
from stoker.rounds.memory import Memory
from stoker.text.tokenizer import from_source

pytestmark = pytest.mark.mlx


def nowhere(drafting: Drafting) -> Path:
    raise AssertionError("nothing is to be loaded")


def subject(pieces: Sequence[bytes] = ()) -> Subject:
    return Subject(Target(tiny.llama(), 2, 64), pieces)


def memory(place: Path) -> Memory:
    return Memory(place, Measured("m", "f", "w", "d", "b", "s"))


def test_without_a_kind_nothing_drafts_and_nothing_is_measured(tmp_path: Path) -> None:
    made = assemble(Drafting(rule=Setting.STOCHASTIC), subject(), memory(tmp_path), find=nowhere)
    assert not made.speculation.drafters
    assert made.speculation.setting is Setting.STOCHASTIC
    assert made.exactness is None
    assert list(tmp_path.iterdir()) == []


def test_prompt_lookup_is_probed_measured_and_remembered(tmp_path: Path) -> None:
    drafting = Drafting(kind=Kind.PROMPT_LOOKUP, most=3, least=2)
    whole = subject()
    made = assemble(drafting, whole, memory(tmp_path), find=nowhere)
    assert made.speculation.default is Kind.PROMPT_LOOKUP
    assert made.speculation.least == 2
    assert made.exactness is not None
    assert made.budget is not None
    assert set(made.budget.tables[""].cells) == {(1, 1), (1, 4), (2, 1), (2, 4)}
    assert whole.target.lengths == (0, 0)
    made.speculation.remember(made.budget)
    again = assemble(drafting, subject(), memory(tmp_path), find=nowhere)
    assert again.budget is not None
    assert again.budget.view().costs == made.budget.view().costs


def test_a_kind_that_is_not_built_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="mtp is not built"):
        assemble(Drafting(kind=Kind.MTP), subject(), memory(tmp_path), find=nowhere)


def test_impossible_sizes_of_prompt_lookup_are_refused() -> None:
    with pytest.raises(StartError, match="17"):
        lookup(Drafting(kind=Kind.PROMPT_LOOKUP, ngram_max=17))


@pytest.mark.parametrize(
    ("cuda", "adaptive", "floor", "expected"),
    [
        (False, True, True, Graded(7)),
        (False, False, True, Graded(7)),
        (True, True, True, Gated(7)),
        (True, False, True, Gated(7, floor=0.0)),
        (True, True, False, Gated(7, floor=0.0)),
    ],
)
def test_the_governor_is_the_backends(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, adaptive: bool, floor: bool, expected: object
) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: cuda)
    drafter = lookup(Drafting(kind=Kind.PROMPT_LOOKUP, most=7, adaptive=adaptive), floor=floor)
    assert drafter.governor(7) == expected


def test_a_block_drafter_is_not_taken_for_a_draft_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "dflash_config": {"mask_token_id": 1}}))
    with pytest.raises(StartError, match="dflash drafter"):
        draft_model(Drafting(kind=Kind.DRAFT_MODEL), subject(), tmp_path)


def test_a_draft_model_must_share_the_targets_tokens(tmp_path: Path) -> None:
    path = tmp_path / "draft.gguf"
    write(path, sample("llama"))
    loaded = load(str(path))
    pieces = from_source(loaded.tokenizer).pieces
    target = Target(loaded.model, 1, 64)
    drafting = Drafting(kind=Kind.DRAFT_MODEL, most=2)
    assert draft_model(drafting, Subject(target, pieces), path).width == 2
    with pytest.raises(StartError, match="other tokens"):
        draft_model(drafting, Subject(target, [b"?", *pieces[1:]]), path)


def test_the_corners_of_the_cost_table_are_measured_once() -> None:
    budget = Budget()
    seed(budget, Target(tiny.llama(), 1, 64), 1)
    assert set(budget.tables[""].cells) == {(1, 1)}
