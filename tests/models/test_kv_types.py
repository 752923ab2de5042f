"""Packed keys and values: near to the plain ones, and the same wherever and however they are written and read."""

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from stoker.core.errors import StartError
from stoker.models.kv_types import BITS, Cast, KVTypes, Packing
from stoker.models.target import Target

pytestmark = pytest.mark.mlx

IDS = tuple((7 * n + 3) % 120 for n in range(40))


def model() -> nn.Module:
    return tiny.llama(head_dim=32)


def run(target: Target, slot: int, ids: tuple[int, ...]) -> mx.array:
    with target.verify([slot], mx.array([ids], mx.int32)) as seen:
        seen.keep([len(ids)])
        mx.eval(seen.logits, seen.state)
    return seen.logits[0, -1]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("bits", [4, 5, 8])
def test_what_was_packed_comes_back_within_a_step(bits: int, dtype: mx.Dtype) -> None:
    mx.random.seed(bits)
    x = mx.random.normal((2, 3, 5, 64)).astype(dtype)
    words = Packing(bits).pack(x)
    assert words.dtype == mx.uint32
    assert words.shape == (2, 3, 5, 2 * bits + (4 if dtype == mx.float32 else 2))
    back = Packing(bits).unpack(words, dtype, 64)
    groups = x.reshape(2, 3, 5, 2, 32)
    step = (groups.max(axis=-1) - groups.min(axis=-1)) / (2**bits - 1)
    error = mx.abs(back - x).reshape(2, 3, 5, 2, 32).max(axis=-1)
    assert back.dtype == dtype
    assert mx.all(error <= 1.1 * step + (0 if dtype == mx.float32 else 0.03)).item(), (
        "zero is kept exact, so an edge may lose more"
    )
    assert mx.array_equal(Packing(bits).unpack(words[1:, :, 2:4], dtype, 64), back[1:, :, 2:4]), "wherever it is read"


@pytest.mark.parametrize(("name", "near"), [("f16", 0.05), ("bf16", 0.2), ("q8_0", 0.2), ("q5_1", 2.0), ("q4_0", 4.0)])
def test_a_packed_cache_is_smaller_and_its_logits_are_near(name: str, near: float) -> None:
    plain, packed = Target(model(), 2, 128), Target(model(), 2, 128, types=KVTypes.of(name, name))
    assert packed.bytes_per_column <= plain.bytes_per_column / 2
    error = mx.abs(run(plain, 0, IDS) - run(packed, 0, IDS)).max().item()
    assert 0 < error < near  # pyright: ignore[reportOperatorIssue]


def test_columns_that_come_one_by_one_are_those_that_came_together() -> None:
    types = KVTypes.of("q4_1", "q8_0")
    target = Target(model(), 3, 128, types=types)
    together = run(target, 1, IDS)
    *_, last = [run(target, 2, (id,)) for id in IDS]
    assert mx.abs(together - last).max().item() < 1e-3  # pyright: ignore[reportOperatorIssue]
    snapshot = target.snapshot(2)
    target.put(0, snapshot)
    assert mx.array_equal(run(target, 0, (5,)), run(target, 2, (5,)))
    with pytest.raises(ValueError, match="another type"):
        Target(model(), 1, 128).put(0, snapshot)


def test_only_the_named_half_is_packed() -> None:
    keys, values = KVTypes.of("q8_0", ""), KVTypes.of("", "q4_0")
    assert (keys.keys, keys.values) == (Packing(8), None)
    assert (values.keys, values.values) == (None, Packing(4))
    sizes = [Target(model(), 1, 64, types=types).bytes_per_column for types in (KVTypes(), keys, values)]
    assert sizes[0] > sizes[1] > sizes[2]
    assert KVTypes.of("bf16", "f32") == KVTypes(Cast(mx.bfloat16), Cast(mx.float32))
    assert set(BITS.values()) == {4, 5, 8}


def test_heads_that_cannot_be_packed_are_refused_by_their_size() -> None:
    with pytest.raises(StartError, match="heads of 16 numbers"):
        Target(tiny.llama(head_dim=16), 1, 64, types=KVTypes.of("q8_0", ""))
