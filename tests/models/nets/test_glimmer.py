"""Muse Glimmer's assistant against what the reference was recorded to do, inside and past its window."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from models import tiny
from models.nets import published, scripts
from models.nets.scripts import GLIMMER_CASES, GLIMMER_STEPS
from stoker.core.errors import StartError
from stoker.models.nets.context import Context
from stoker.models.nets.glimmer import configure, load
from stoker.models.nets.lender import lend
from stoker.models.target import Target

pytestmark = pytest.mark.mlx

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded/glimmer.json").read_text("utf-8"))


def target(dtype: mx.Dtype = mx.float32) -> Target:
    model = published.glimmer_target()
    model.set_dtype(dtype)
    return Target(model, 2, 256)


@pytest.mark.parametrize("name", GLIMMER_CASES)
def test_blocks_are_the_references(name: str, tmp_path: Path) -> None:
    case, reference = GLIMMER_CASES[name], RECORDED[name]
    net = load(case.write(tmp_path), lend(target(case.dtype)), packed=True)
    context = Context(net, 2, 256)
    room = 2e-3 if case.dtype == mx.float32 else 0.2
    for number, columns in enumerate(GLIMMER_STEPS):
        pieces = [scripts.glimmer_features(number, columns).astype(case.dtype)]
        out = context.draft([1], [pieces], [scripts.final(number)])
        tokens = mx.argmax(net.logits(out), axis=-1).tolist()
        hidden = np.array(out.astype(mx.float32))[0, :, ::4]
        assert np.abs(hidden - np.array(reference["hidden"][number])).max() < room
        assert tokens == [reference["proposals"][number]] or case.dtype != mx.float32
    assert context.length(1) == sum(GLIMMER_STEPS)


def test_the_targets_factor_and_cap_change_sharpness_and_no_argmax(tmp_path: Path) -> None:
    path, lender = published.glimmer_assistant(tmp_path), lend(target())
    raw, shaped = load(path, lender), load(path, lender, multiplier=0.7, softcap=20.0)
    hidden = scripts.Numbers(1).matrix(1, 5, published.WIDTH, size=1.0)
    expected = 20 * mx.tanh(raw.logits(hidden) * 0.7 / 20)
    assert mx.allclose(shaped.logits(hidden), expected, atol=1e-4).item()
    assert mx.array_equal(mx.argmax(raw.logits(hidden), -1), mx.argmax(shaped.logits(hidden), -1)).item()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_layer_ids": [3, 1, 5]}, "rising order"),
        ({"target_layer_ids": [1, 3]}, "as many layers"),
        ({"layer_types": ["full_attention"] * 3}, "sliding_attention"),
        ({"vocab_size": 100}, "100 tokens.*128"),
        ({"num_target_layers": 9}, "9 decoder layers.*8"),
        ({"mask_token_id": 128}, "mask token 128"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=said):
        load(published.glimmer_assistant(tmp_path, **changes), lend(target()))


def test_the_published_measures_are_the_defaults() -> None:
    config = configure({}, "here")
    assert (config.hidden, config.layers, config.block, config.mask) == (6656, 5, 16, 201818)
    assert config.vocab is None
    assert {sight.window for sight in config.sights} == {2049}
    assert configure({"sliding_window": tiny.WINDOW}, "here").sights[0].window == tiny.WINDOW + 1


def test_a_nested_configuration_without_the_targets_measures_is_the_same_assistant(tmp_path: Path) -> None:
    flat = load(published.glimmer_assistant(tmp_path / "flat"), lend(target()))
    nested = load(published.glimmer_assistant(tmp_path / "nested", nested=True), lend(target()))
    assert nested.config.vocab is None
    assert replace(nested.config, vocab=flat.config.vocab, target_layers=8) == flat.config
