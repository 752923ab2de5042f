"""Adapters, row by row: each row gets its own scales, in company as alone, and mlx-lm's own fused layers agree."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers, load_adapters

from models import tiny
from stoker.core.errors import StartError
from stoker.models.adapters import Adapters
from stoker.models.target import Target

pytestmark = pytest.mark.mlx

IDS = (3, 14, 15, 92, 65)
KEYS = ["self_attn.q_proj", "mlp.down_proj"]


def adapter(folder: Path, make: Any = tiny.llama, seed: int = 1, keys: Sequence[str] = KEYS, **config: Any) -> str:
    """A random adapter of the model's last two layers, written as mlx-lm's training writes it."""
    model = make()
    parameters = {"rank": 4, "scale": 3.0, "dropout": 0.0, "keys": list(keys)}
    model.freeze()
    linear_to_lora_layers(model, 2, parameters)
    mx.random.seed(seed)
    weights = {
        name: mx.random.normal(array.shape) * 0.2
        for name, array in tree_flatten(model.parameters())
        if isinstance(array, mx.array) and name.endswith((".lora_a", ".lora_b"))
    }
    folder.mkdir()
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    settings = {"fine_tune_type": "lora", "num_layers": 2, "lora_parameters": parameters, **config}
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return str(folder)


def logits(target: Target, slots: Sequence[int], scales: Sequence[tuple[float, ...]]) -> list[mx.array]:
    """Of the same tokens in each slot, at its own scales, all in one forward."""
    for slot, one in zip(slots, scales, strict=True):
        target.truncate(slot, 0)
        target.adapt(slot, one)
    with target.verify(slots, mx.array([IDS] * len(slots), mx.int32)) as seen:
        mx.eval(seen.logits)
    return list(seen.logits)


def close(a: mx.array, b: mx.array) -> bool:
    return bool(mx.abs(a - b).max().item() < 1e-3)  # pyright: ignore[reportOperatorIssue]


def adapted(model: nn.Module, slots: int, *paths: str) -> Target:
    return Target(model, slots, 64, adapters=Adapters(model, paths))


@pytest.mark.parametrize("make", [tiny.llama, tiny.qwen3, tiny.lfm2], ids=["llama", "qwen3", "lfm2"])
def test_an_adapter_at_full_scale_is_mlx_lms_own(tmp_path: Path, make: Any) -> None:
    keys = {tiny.lfm2: ["self_attn.q_proj", "conv.in_proj", "feed_forward.w1"]}.get(make, KEYS)
    path = adapter(tmp_path / "a", make, keys=keys)
    truth = load_adapters(make(), path)
    truth.eval()
    target = adapted(make(), 1, path)
    plain = make()(mx.array([IDS]))[0]
    (full,) = logits(target, [0], [(1.0,)])
    assert close(full, truth(mx.array([IDS]))[0])
    assert not close(full, plain)
    assert mx.array_equal(logits(target, [0], [()])[0], logits(target, [0], [(0.0,)])[0])
    assert close(logits(target, [0], [()])[0], plain)


def test_rows_with_different_scales_share_a_forward_and_none_gets_anothers(tmp_path: Path) -> None:
    paths = [adapter(tmp_path / "a"), adapter(tmp_path / "b", seed=2)]
    target = adapted(tiny.llama(), 4, *paths)
    scales = [(1.0, 0.0), (), (0.5, -1.0), (0.0, 1.0)]
    alone = [logits(target, [0], [one])[0] for one in scales]
    together = logits(target, [0, 1, 2, 3], scales)
    assert all(close(a, b) for a, b in zip(alone, together, strict=True))
    assert not any(close(alone[i], alone[j]) for i in range(4) for j in range(i))
    backwards = logits(target, [3, 2, 1, 0], scales)
    assert all(close(a, b) for a, b in zip(alone, backwards, strict=True)), "scales follow the slots"


def test_a_recurrent_row_that_keeps_a_part_is_run_again_with_its_adapter(tmp_path: Path) -> None:
    path = adapter(tmp_path / "a", tiny.lfm2, keys=["conv.in_proj", "conv.out_proj"])
    target = adapted(tiny.lfm2(), 2, path)

    def step(ids: Sequence[int], keep: int) -> mx.array:
        with target.verify([0], mx.array([ids], mx.int32)) as seen:
            seen.keep([keep])
            mx.eval(seen.logits, seen.state)
        return seen.logits[0]

    target.adapt(0, (1.0,))
    step(IDS, 3)
    cut = step((7,), 1)
    target.truncate(0, 0)
    step(IDS[:3], 3)
    assert close(cut, step((7,), 1))


@pytest.mark.parametrize("tied", [False, True])
def test_an_embedding_can_be_adapted_as_the_head_too(tmp_path: Path, tied: bool) -> None:
    def make() -> nn.Module:
        return tiny.llama(tie_word_embeddings=tied)

    path = adapter(tmp_path / "a", make, keys=["model.embed_tokens"])
    truth = load_adapters(make(), path)
    truth.eval()
    assert close(logits(adapted(make(), 1, path), [0], [(1.0,)])[0], truth(mx.array([IDS]))[0])


def test_packed_layers_take_adapters(tmp_path: Path) -> None:
    def packed() -> nn.Module:
        model = tiny.llama(hidden_size=64, intermediate_size=128)
        nn.quantize(model, group_size=32, bits=8)
        return model

    path = adapter(tmp_path / "a", packed)
    truth = load_adapters(packed(), path)
    truth.eval()
    assert close(logits(adapted(packed(), 1, path), [0], [(1.0,)])[0], truth(mx.array([IDS]))[0])


def test_identity_is_of_the_files_in_their_order(tmp_path: Path) -> None:
    a, b = adapter(tmp_path / "a"), adapter(tmp_path / "b", seed=2)
    made = {Adapters(tiny.llama(), paths).identity for paths in ((), (a,), (b,), (a, b), (b, a))}
    assert len(made) == 5
    assert "" in made


def test_what_is_no_adapter_of_this_model_is_refused_in_one_line(tmp_path: Path) -> None:
    good, wide = adapter(tmp_path / "a"), adapter(tmp_path / "w", lambda: tiny.llama(intermediate_size=32))
    dora = adapter(tmp_path / "d", fine_tune_type="dora")
    half = adapter(tmp_path / "h")
    weights = cast("dict[str, mx.array]", mx.load(half + "/adapters.safetensors"))
    mx.save_safetensors(half + "/adapters.safetensors", {k: v for k, v in weights.items() if k.endswith("a")})
    for path, says in (
        (str(tmp_path / "none"), "no MLX adapter"),
        (wide, "has shapes"),
        (dora, "of type dora"),
        (half, "lacks its lora_a or lora_b"),
    ):
        with pytest.raises(StartError, match=says) as refused:
            Adapters(tiny.llama(), [path])
        assert "\n" not in str(refused.value)
    with pytest.raises(StartError, match="no layer"):
        Adapters(tiny.mamba2(), [good])
    with pytest.raises(ValueError, match="2 scales for 1"):
        adapted(tiny.llama(), 1, good).adapt(0, (1.0, 2.0))
