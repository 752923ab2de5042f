"""Drafters that can propose some tokens only: the same numbers for these, no chance for the others."""

from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn

from models import tiny
from rounds.drafters import checkpoint, shorten
from stoker.core.errors import StartError
from stoker.models.nets import dflash, dspark
from stoker.models.nets.dspark import DSparkNet
from stoker.models.nets.lender import lend, rows_of
from stoker.models.target import Target

pytestmark = pytest.mark.mlx
IDS = [0, 3, 4, 50, 51, 90, 127]
LOADERS: dict[str, Any] = {"dflash": dflash.load, "dspark": dspark.load}


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(tiny.llama(), 1, 64)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_short_head_says_of_its_tokens_what_the_whole_one_says(name: str, tied: bool, tmp_path: Path) -> None:
    target = Target(tiny.llama(tie_word_embeddings=tied), 1, 64)
    path = checkpoint(name, target, tmp_path)
    whole = LOADERS[name](path, lend(target))
    shorten(path, IDS)
    short = LOADERS[name](path, lend(target))
    hidden = mx.random.normal((2, 3, tiny.WIDTH))
    expected, found = whole.logits(hidden), short.logits(hidden)
    assert found.shape == (2, 3, len(IDS))
    if isinstance(whole, DSparkNet):
        before = mx.array([7, 90], mx.int32)
        expected, found = (net.corrected(it[:, 0], before) for net, it in ((whole, expected), (short, found)))
    spread = np.array(short.spread(found))
    assert np.allclose(spread[..., IDS], np.array(expected)[..., IDS], atol=1e-5)
    assert np.isneginf(np.delete(spread, IDS, axis=-1)).all()


@pytest.mark.parametrize("bits", [None, 4, 8])
@pytest.mark.parametrize("kind", [nn.Linear, nn.Embedding])
def test_rows_of_a_table_are_those_of_the_whole_packed_or_not(kind: Any, bits: int | None) -> None:
    table = nn.Linear(64, 128, bias=False) if kind is nn.Linear else nn.Embedding(128, 64)
    table = table if bits is None else cast("Any", table).to_quantized(group_size=32, bits=bits)
    x = mx.random.normal((2, 3, 64))
    whole = cast("Any", table)(x) if kind is nn.Linear else cast("Any", table).as_linear(x)
    assert mx.allclose(rows_of(table, mx.array(IDS))(x), whole[..., mx.array(IDS)], atol=1e-5)


def test_rows_of_a_layer_with_a_bias_have_theirs() -> None:
    table = nn.Linear(64, 128)
    x = mx.random.normal((3, 64))
    assert mx.allclose(rows_of(table, mx.array(IDS))(x), table(x)[:, mx.array(IDS)], atol=1e-5)


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([0, 3, 3], id="one token twice"),
        pytest.param([0, 3, 128], id="beyond the vocabulary"),
        pytest.param([-1, 3, 4], id="below zero"),
    ],
)
def test_a_d2t_that_leads_nowhere_is_refused_with_both_sides(ids: list[int], target: Target, tmp_path: Path) -> None:
    path = checkpoint("dflash", target, tmp_path)
    shorten(path, ids)
    with pytest.raises(StartError, match=r"can propose 3 tokens, and its d2t does not lead .*llama.Model's 128$"):
        dflash.load(path, lend(target))


def test_a_checkpoint_without_its_d2t_is_refused(target: Target, tmp_path: Path) -> None:
    path = checkpoint("dflash", target, tmp_path)
    shorten(path, IDS)
    tensors = cast("dict[str, mx.array]", mx.load(str(path / "model.safetensors")))
    mx.eval(tensors)
    del tensors["d2t"]
    mx.save_safetensors(str(path / "model.safetensors"), tensors)
    with pytest.raises(StartError, match="d2t does not lead"):
        dflash.load(path, lend(target))
