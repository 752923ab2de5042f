"""What the command line says about drafting becomes drafters, or one clear line."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from models import tiny
from stoker.acceptance.select import Setting
from stoker.core.counters import Kind
from stoker.models.shelf import Subject as Measured
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.assembly import assemble, seed
from stoker.rounds.budget import Budget
from stoker.rounds.kinds import Subject
from stoker.rounds.memory import Memory

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


def test_the_corners_of_the_cost_table_are_measured_once() -> None:
    budget = Budget()
    seed(budget, Target(tiny.llama(), 1, 64), 1)
    assert set(budget.tables[""].cells) == {(1, 1)}
