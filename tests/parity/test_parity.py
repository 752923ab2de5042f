"""Our nets say what mlx-vlm's say, for ragged rows in one forward where it runs them one by one."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn

from parity import cases
from parity.cases import CASES, Case
from stoker.models.nets import dflash, dspark
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.context import Context
from stoker.models.nets.dspark import DSparkNet
from stoker.models.nets.lender import Lender

pytestmark = pytest.mark.mlx

TOLERANCE = {"float32": 5e-5, "bfloat16": 0.15}
"""Of logits of up to 20: rounding, in another order of rows."""


def lender(case: Case) -> Lender:
    table = nn.Embedding(cases.VOCAB, cases.WIDTH)
    table.weight = cases.table(case)
    return Lender("target", cases.VOCAB, cases.WIDTH, cases.DEPTH, table, 1.0, table.as_linear, untied=False)


def load(case: Case, place: Path) -> BlockNet:
    return {"dflash": dflash, "dspark": dspark}[case.kind].load(cases.write(case, place), lender(case), packed=True)


def greedy(net: BlockNet, hidden: mx.array) -> mx.array:
    """The logits of greedy proposals, [B, n, V]."""
    logits = net.logits(hidden)
    if not isinstance(net, DSparkNet):
        return logits
    previous, chained = mx.array([cases.ANCHOR] * hidden.shape[0]), list[mx.array]()
    for slot in range(logits.shape[1]):
        chained.append(net.corrected(logits[:, slot], previous))
        previous = mx.argmax(chained[-1], axis=-1)
    return mx.stack(chained, axis=1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_logits_and_proposals_are_the_references(case: Case, tmp_path: Path) -> None:
    recorded = np.load(cases.RECORDINGS / f"{case.name}.npz")
    net = load(case, tmp_path)
    context = Context(net, 4, 256)
    slots = [2, 0, 1]
    for n in range(len(case.fresh[0])):
        pieces = [[cases.features(case, row, n)] for row in range(3)]
        hidden = context.draft(slots, pieces, [cases.ANCHOR] * 3)[:, : case.proposals]
        ours = np.array(greedy(net, hidden).astype(mx.float32))
        for row in range(3):
            theirs = recorded[f"{row}-{n}"]
            assert np.abs(ours[row] - theirs).max() < TOLERANCE[case.dtype], f"row {row}, round {n}"
            if case.dtype == "float32":
                assert ours[row].argmax(-1).tolist() == theirs.argmax(-1).tolist()
    assert [context.length(slot) for slot in slots] == [sum(fresh) for fresh in case.fresh]


def test_the_recordings_would_notice_a_wrong_position(tmp_path: Path) -> None:
    case = CASES[0]
    net = load(case, tmp_path)
    context = Context(net, 1, 256)
    context.skip(0, 1)
    hidden = context.draft([0], [[cases.features(case, 0, 0)]], [cases.ANCHOR])
    wrong = np.array(greedy(net, hidden))[0]
    recorded = np.load(cases.RECORDINGS / f"{case.name}.npz")["0-0"]
    assert np.abs(wrong - recorded).max() < TOLERANCE["float32"], "positions are relative: a hole before all is nothing"
    again = context.draft([0], [[cases.features(case, 0, 1)[:2]]], [cases.ANCHOR])
    missing = np.array(greedy(net, again))[0]
    assert np.abs(missing - np.load(cases.RECORDINGS / f"{case.name}.npz")["0-1"]).max() > 0.05
