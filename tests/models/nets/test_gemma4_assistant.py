"""Gemma 4's assistant against what the reference was recorded to do, both heads, inside and past the window."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from models.nets import published, scripts
from models.nets.scripts import BLOCK, GEMMA_CASES, PROMPT, gemma_columns, gemma_lengths
from stoker.core.errors import StartError
from stoker.models.nets.gemma4_assistant import GemmaAssistant, load
from stoker.models.nets.lender import lend
from stoker.models.target import Target
from stoker.models.view import View

pytestmark = pytest.mark.mlx

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded/gemma4_assistant.json").read_text("utf-8"))
RUNS = [(name, length) for name in GEMMA_CASES for length in gemma_lengths(name)]


def block(net: GemmaAssistant, view: View, row: int, dtype: mx.Dtype) -> tuple[list[int], np.ndarray]:
    """A greedy block at one row of a view: proposals and logits."""
    model = published.gemma_target()
    model.set_dtype(dtype)
    theirs = lend(Target(model, 1, 64))
    assert theirs.norm is not None
    size = len(view.lengths)
    hidden = mx.broadcast_to(theirs.norm(scripts.residuals(7, 1).astype(dtype)), (size, 1, published.WIDTH))
    offset = mx.array([length - 1 for length in view.lengths])
    tokens, logits = [PROMPT[-1]], []
    for _ in range(BLOCK - 1):
        embedded = theirs.embed(mx.full((size, 1), tokens[-1], mx.int32))
        found, hidden = net(embedded, hidden, net.see(view), offset)
        logits.append(np.array(found[row, -1].astype(mx.float32)))
        tokens.append(int(logits[-1].argmax()))
    return tokens[1:], np.stack(logits)


def one(length: int, dtype: mx.Dtype) -> View:
    kinds = published.GEMMA_TEXT["layer_types"]
    parts = [tuple(array[None].astype(dtype) for array in gemma_columns(kind, length)) for kind in kinds]
    return View((0,), (length,), tuple((keys, values) for keys, values in parts))


@pytest.mark.parametrize(("name", "length"), RUNS)
def test_a_block_is_the_references(name: str, length: int, tmp_path: Path) -> None:
    case, reference = GEMMA_CASES[name], RECORDED[f"{name} {length}"]
    net = load(case.write(tmp_path), packed=True)
    tokens, logits = block(net, one(length, case.dtype), 0, case.dtype)
    assert tokens == reference["proposals"]
    scored = np.isfinite(logits)
    assert scored.all() == (not name.startswith("ordered"))
    room = 2e-3 if case.dtype == mx.float32 else 0.15
    assert np.abs(logits[scored] - np.array(reference["logits"])[scored]).max() < room


@pytest.mark.parametrize("ordered", [False, True])
def test_rows_of_other_lengths_beside_it_change_nothing(ordered: bool, tmp_path: Path) -> None:
    net = load(published.gemma_assistant(tmp_path, ordered=ordered))
    lengths = (5, 3 * net.window, net.window + 1)
    top = max(lengths) + 3
    layers = []
    for kind in net.layer_types:
        columns = [gemma_columns(kind, length) for length in lengths]
        padded = [
            mx.stack([mx.pad(parts[i], [(0, 0), (0, top - n), (0, 0)], constant_values=9.0)
                      for parts, n in zip(columns, lengths, strict=True)])
            for i in range(2)
        ]  # fmt: skip
        layers.append((padded[0], padded[1]))
    view = View((0, 1, 2), lengths, tuple(layers))
    for row, length in enumerate(lengths):
        tokens, logits = block(net, view, row, mx.float32)
        alone, expected = block(net, one(length, mx.float32), 0, mx.float32)
        scored = np.isfinite(expected)
        assert tokens == alone
        assert np.array_equal(scored, np.isfinite(logits))
        assert np.abs(logits[scored] - expected[scored]).max() < 1e-3


def test_a_token_that_was_not_scored_cannot_be_drawn(tmp_path: Path) -> None:
    net = load(published.gemma_assistant(tmp_path, ordered=True))
    _, logits = block(net, one(9, mx.float32), 0, mx.float32)
    assert (np.isfinite(logits).sum(axis=-1) == 4 * published.VOCAB // 16).all()


def test_a_configuration_without_rope_parameters_is_refused(tmp_path: Path) -> None:
    path = published.gemma_assistant(tmp_path)
    config = json.loads((path / "config.json").read_text())
    del config["text_config"]["rope_parameters"]
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(StartError, match="rope_parameters"):
        load(path)
