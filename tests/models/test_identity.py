from dataclasses import replace
from pathlib import Path

import pytest

from gguf_samples import sample, write
from stoker.models.identity import identity
from stoker.models.load import load

pytestmark = pytest.mark.mlx


def test_a_model_is_the_same_wherever_it_lies_and_another_if_a_weight_differs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", sample("llama"))
    first = identity(load(str(path)))
    moved = tmp_path / "b.gguf"
    moved.write_bytes(path.read_bytes())
    assert identity(load(str(moved))) == first
    data = bytearray(moved.read_bytes())
    data[-1] ^= 1
    moved.write_bytes(data)
    assert identity(load(str(moved))) != first
    loaded = load(str(path))
    assert identity(replace(loaded, weights="packed (4-bit)")) != first, "its columns would be other numbers"
