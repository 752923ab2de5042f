"""`stoker convert --mtp`: the heads of an original checkpoint as a sidecar that drafts the same."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from models.nets import published
from stoker.commands.convert import add_arguments, run
from stoker.core.errors import StartError
from stoker.models.detect import inspect
from stoker.models.nets.qwen3_5_mtp import load

pytestmark = pytest.mark.mlx


def convert(*words: object) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args([str(word) for word in words]))


CHECKPOINTS: dict[str, Callable[[Path], Path]] = {
    "dense": published.qwen_native,
    "experts": lambda place: published.qwen_native(place, moe=True),
    "single experts": lambda place: published.qwen_native(place, moe=True, fused=False),
    "bfloat16": lambda place: published.qwen_native(place, dtype=mx.bfloat16),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_sidecar_has_the_heads_as_they_are_loaded_natively(name: str, tmp_path: Path) -> None:
    source, out = CHECKPOINTS[name](tmp_path / "source"), tmp_path / "out"
    (source / "tokenizer.json").write_text("{}")
    assert convert("--mtp", "-m", source, "--out", out) == 0
    native, sidecar = load(source, packed=True), load(out, packed=True)
    ours, theirs = dict(tree_flatten(sidecar.parameters())), dict(tree_flatten(native.parameters()))
    assert ours.keys() == theirs.keys()
    assert all(mx.array_equal(ours[key], theirs[key]).item() for key in ours)
    assert ours["norm.weight"].dtype == (mx.bfloat16 if name == "bfloat16" else mx.float32)
    config = json.loads((out / "config.json").read_text())
    assert (config["model_type"], config["block_size"]) == ("qwen3_5_mtp", 3)
    assert not inspect(out).standalone
    assert (out / "tokenizer.json").exists()


def test_what_has_no_heads_is_refused(tmp_path: Path) -> None:
    source = published.save(tmp_path / "source", {"model_type": "qwen3_5"}, {"model.norm.weight": mx.ones((4,))})
    with pytest.raises(StartError, match=r"no mtp\.\* tensors"):
        convert("--mtp", "-m", source, "--out", tmp_path / "out")


def test_heads_that_are_not_whole_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    weights = published.qwen_heads()
    del weights["mtp.fc.weight"]
    config = {"model_type": "qwen3_5", "text_config": published.QWEN_TEXT}
    source = published.save(tmp_path / "source", config, weights)
    with pytest.raises(StartError, match=r"fc\.weight is missing"):
        convert("--mtp", "-m", source, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_layers_and_a_full_directory_are_refused(tmp_path: Path) -> None:
    source = published.qwen_native(tmp_path / "source")
    with pytest.raises(StartError, match="leave --layers out"):
        convert("--mtp", "--layers", "1", "-m", source, "--out", tmp_path / "out")
    with pytest.raises(StartError, match="not an empty directory"):
        convert("--mtp", "-m", source, "--out", source)
