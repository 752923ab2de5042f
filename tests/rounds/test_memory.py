import json
from pathlib import Path

import pytest

from stoker.models.shelf import Subject
from stoker.rounds.budget import Budget
from stoker.rounds.costs import Cell, CostTable
from stoker.rounds.memory import Memory

pytestmark = pytest.mark.mlx
SUBJECT = Subject("model", "files", "float32", "device", "blas", "software")


def test_what_a_run_has_learned_is_there_in_the_next_one(tmp_path: Path) -> None:
    budget = Budget(
        {"": CostTable({(1, 1): Cell(0.05, 3), (4, 8): Cell(0.1, 1)}), "draft-model": CostTable({(1, 4): Cell(0.2, 2)})}
    )
    Memory(tmp_path, SUBJECT).keep(budget)
    assert Memory(tmp_path, SUBJECT).budget().view().costs == budget.view().costs


def test_a_new_model_begins_with_an_empty_budget(tmp_path: Path) -> None:
    assert Memory(tmp_path, SUBJECT).budget().cost("", 1, 1) == 0.0


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"ticks": 3},
        {"ticks": {"": {"1y1": [0.1, 1]}}},
        {"ticks": {"": {"1x1": 0.1}}},
        {"ticks": {"": {"1x1": [-1.0, 1]}}},
        {"ticks": {"": {"1x1": [0.1, 0]}}},
    ],
)
def test_a_file_that_is_not_whole_is_as_good_as_none(
    tmp_path: Path, content: object, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory(tmp_path, SUBJECT)
    memory.keep(Budget({"": CostTable({(1, 1): Cell(0.05, 1)})}))
    held = json.loads(memory.shelf.path.read_text())
    memory.shelf.path.write_text(json.dumps({**held, "content": content}))
    assert memory.budget().cost("", 1, 1) == 0.0
    assert "cannot be used" in caplog.text
