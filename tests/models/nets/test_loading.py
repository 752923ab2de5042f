"""Loading block drafters: strict about tensors, and every wrong pairing is refused with both sides in one line."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from models import tiny
from parity import cases
from rounds.drafters import CASES, checkpoint
from stoker.core.errors import StartError
from stoker.models.nets import checkpoint as reading
from stoker.models.nets import dflash, dspark
from stoker.models.nets.lender import lend
from stoker.models.target import Target

pytestmark = pytest.mark.mlx

LOADERS: dict[str, Callable[..., Any]] = {"dflash": dflash.load, "dspark": dspark.load}


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(tiny.llama(), 1, 64)


def configured(path: Path, nested: dict[str, Any] | None = None, **changes: Any) -> Path:
    file = path / "config.json"
    config = json.loads(file.read_text())
    config["dflash_config"] |= nested or {}
    file.write_text(json.dumps(config | changes))
    return path


def stored(path: Path, change: Callable[[dict[str, mx.array]], object]) -> Path:
    file = path / "model.safetensors"
    tensors: Any = mx.load(str(file))
    mx.eval(tensors)
    change(tensors)
    mx.save_safetensors(str(file), tensors)
    return path


def refused(kind: str, path: Path, target: Target) -> str:
    with pytest.raises(StartError) as raised:
        LOADERS[kind](path, lend(target))
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(
    ("nested", "changes", "said"),
    [
        ({}, {"vocab_size": 96}, "is made for 96 tokens, the target mlx_lm.models.llama.Model has 128"),
        ({}, {"hidden_size": 32}, "is made for 32 hidden units, the target mlx_lm.models.llama.Model has 64"),
        ({"num_target_layers": 9}, {}, "is made for 9 decoder layers, the target mlx_lm.models.llama.Model has 4"),
        ({"target_layer_ids": [0, 1, 4]}, {}, "reads the target's layer 4, and the target"),
        ({"mask_token_id": 128}, {}, "has mask token 128 of 128 tokens"),
    ],
)
def test_a_wrong_pairing_names_both_sides(
    kind: str, nested: dict[str, Any], changes: dict[str, Any], said: str, target: Target, tmp_path: Path
) -> None:
    path = configured(checkpoint(kind, target, tmp_path), nested, **changes)
    answer = refused(kind, path, target)
    assert said in answer
    assert str(path) in answer


@pytest.mark.parametrize("name", ["markov_w1", "markov_w2"])
def test_a_markov_table_of_another_vocabulary_is_refused(name: str, target: Target, tmp_path: Path) -> None:
    full = f"markov_head.{name}.weight"
    path = stored(checkpoint("dspark", target, tmp_path), lambda t: t.update({full: t[full][:100]}))
    assert f"has {name} for 100 tokens, the target mlx_lm.models.llama.Model needs 128" in refused(
        "dspark", path, target
    )


def test_a_markov_table_of_another_rank_is_refused(target: Target, tmp_path: Path) -> None:
    path = configured(checkpoint("dspark", target, tmp_path), markov_rank=16)
    said = refused("dspark", path, target)
    assert "has shape [" in said
    assert "and its configuration says [" in said


def test_another_kind_of_markov_head_is_refused(target: Target, tmp_path: Path) -> None:
    path = configured(checkpoint("dspark", target, tmp_path), markov_head_type="gated")
    assert "markov_head_type 'gated' is not supported" in refused("dspark", path, target)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("fc.weight"), "tensor fc.weight is missing"),
        (lambda t: t.update({"extra.weight": mx.zeros((1,))}), "tensor extra.weight is unknown in a DFlashNet"),
        (lambda t: t.update({"norm.weight": mx.zeros((3,))}), "tensor norm.weight has shape [3]"),
        (lambda t: t.update({"model.fc.weight": mx.zeros((3,))}), "two of its tensors have one name"),
    ],
)
def test_tensors_must_be_all_there_and_nothing_else(
    change: Callable[[dict[str, mx.array]], object], said: str, target: Target, tmp_path: Path
) -> None:
    assert said in refused("dflash", stored(checkpoint("dflash", target, tmp_path), change), target)


def test_prefixed_names_and_stale_buffers_are_accepted(target: Target, tmp_path: Path) -> None:
    def prefix(tensors: dict[str, mx.array]) -> None:
        old = dict(tensors)
        tensors.clear()
        tensors.update({f"model.{name}": tensor for name, tensor in old.items()})
        tensors["layers.0.self_attn.rotary_emb.inv_freq"] = mx.zeros((8,))

    dflash.load(stored(checkpoint("dflash", target, tmp_path), prefix), lend(target))


def test_an_empty_folder_and_a_damaged_file_are_refused(target: Target, tmp_path: Path) -> None:
    assert "holds no weights" in refused("dflash", tmp_path, target)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    (tmp_path / "config.json").write_text("{}")
    assert "cannot load the drafter" in refused("dflash", tmp_path, target)


@pytest.mark.parametrize(("bits", "dtype"), [(0, "bfloat16"), (4, "float32"), (8, "bfloat16")])
def test_weights_are_held_as_the_backend_likes_them_or_as_stored(
    bits: int, dtype: str, target: Target, tmp_path: Path
) -> None:
    nested = {"num_target_layers": target.depth, "target_layer_ids": [0, 1, 2]}
    path = cases.write(replace(CASES["dspark"], bits=bits, dtype=dtype, nested=nested), tmp_path)
    unpacked = dspark.load(path, lend(target), packed=False)
    assert unpacked.fc.weight.dtype == mx.float32
    assert "scales" not in unpacked.fc
    kept = dspark.load(path, lend(target), packed=True)
    assert kept.dtype == cases.DTYPES[dtype]
    assert ("scales" in kept.fc) == bool(bits)
    assert ("scales" in kept.markov_head.markov_w1) == bool(bits)


def test_a_checkpoint_may_bring_its_own_tables(target: Target, tmp_path: Path) -> None:
    mine = mx.random.normal((tiny.VOCAB, tiny.WIDTH))
    path = stored(checkpoint("dflash", target, tmp_path), lambda t: t.update({"embed_tokens.weight": mine}))
    net = dflash.load(path, lend(target))
    ids = mx.array([[3, 4]])
    assert mx.array_equal(net.embed(ids), mine[ids])
    hidden = mx.random.normal((1, 2, tiny.WIDTH))
    assert mx.allclose(net.logits(hidden), hidden @ mine.T, atol=1e-5), "as the target's head is its table"
    untied = lend(Target(tiny.llama(tie_word_embeddings=False), 1, 64))
    assert mx.array_equal(dflash.load(path, untied).logits(hidden), untied.head(hidden))
    path = stored(path, lambda t: t.update({"lm_head.weight": 2 * mine}))
    assert mx.allclose(dflash.load(path, untied).logits(hidden), 2 * hidden @ mine.T, atol=1e-5)


def test_a_net_without_a_target_says_so(target: Target, tmp_path: Path) -> None:
    found = reading.read(checkpoint("dflash", target, tmp_path))
    config = dflash.block_config.read(found.config, "DIR")
    with pytest.raises(RuntimeError, match="not borrowed"):
        dflash.DFlashNet(config, dflash.layout(config)).embed(mx.array([[1]]))


def test_layouts_count_columns_for_dflash_and_proposals_for_dspark() -> None:
    def flash(**more: Any) -> tuple[int, int, int]:
        found = dflash.layout(dflash.block_config.read({"block_size": 8, **more}, "DIR"))
        return found.columns, found.first, found.most

    def spark(block: int, **more: Any) -> tuple[int, int, int]:
        settings = {"block_size": block, **more}
        reader = dspark.Reader(settings, "DIR")
        found = dspark.Head(reader).layout(dspark.block_config.read(settings, "DIR"))
        return found.columns, found.first, found.most

    assert flash() == (8, 1, 7)
    assert flash(runtime_block_size=4) == (8, 1, 3)
    assert spark(5) == (5, 0, 5)
    assert spark(9) == (9, 0, 7), "a round has at most 8 columns unless the configuration says more"
    assert spark(9, runtime_block_size=10) == (9, 0, 9)
    assert spark(8, dspark_bonus_anchor=True) == (7, 0, 7)
    assert spark(5, sample_from_anchor=False) == (6, 1, 5)


@pytest.mark.parametrize(("family", "scale"), [("gemma3_text", 8.0), ("gemma4_text", 8.0), ("qwen3", 1.0), ("lfm2", 1)])
def test_a_targets_own_scale_of_embeddings_is_found(family: str, scale: float) -> None:
    assert lend(Target(tiny.TARGETS[family](), 1, 64)).scale == scale


@pytest.mark.parametrize("family", tiny.TARGETS)
def test_every_family_lends(family: str) -> None:
    target = Target(tiny.TARGETS[family](), 1, 64)
    found = lend(target)
    assert (found.vocab, found.width, found.depth) == (tiny.VOCAB, tiny.WIDTH, target.depth)
    assert found.head(mx.zeros((1, 2, tiny.WIDTH))).shape == (1, 2, tiny.VOCAB)
