"""What drafted ticks cost is measured before the first request, in slots that are empty again afterwards."""

from pathlib import Path

import pytest

from models import tiny
from rounds.drafters import net
from stoker.models.target import Target
from stoker.rounds.base import Drafter
from stoker.rounds.budget import Budget
from stoker.rounds.dflash import DFlash
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.rehearsal import rehearse

pytestmark = pytest.mark.mlx


@pytest.mark.parametrize("kind", ["dflash", "draft-model"])
def test_each_shape_is_measured_and_nothing_stays(kind: str, tmp_path: Path) -> None:
    target = Target(tiny.llama(), 3, 64)
    drafter: Drafter = DraftModel(Target(tiny.llama(), 3, 64), target)
    if kind == "dflash":
        drafter = DFlash(net("dflash", target, tmp_path), target)
    budget = Budget()
    rehearse(budget, target, drafter, (1, 3), (2, 4))
    assert {company for company, table in budget.tables.items() if table.cells} == {kind}
    assert set(budget.tables[kind].cells) == {(1, 2), (1, 4), (3, 2), (3, 4)}
    assert target.lengths == (0, 0, 0)
    if isinstance(drafter, DFlash):
        assert [drafter.context.length(slot) for slot in range(3)] == [0, 0, 0]
        assert drafter.acceptance.tested == [], "and no drafter learns from it"
