"""A slot's content on the host and in files, for each kind of cache."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from stoker.models import slot_file
from stoker.models.slot_file import LEAD, SlotFileError
from stoker.models.target import Target

pytestmark = pytest.mark.mlx

PROMPT = (3, 14, 15, 92, 65, 35, 89, 79, 32)
FAMILIES = ("llama", "llama_sliding", "gemma4_shared", "lfm2", "qwen3_5", "mamba2")


def run(target: Target, slot: int, ids: tuple[int, ...]) -> mx.array:
    """The logits behind the last of the ids, which the slot then holds."""
    with target.verify([slot], mx.array([ids], mx.int32)) as seen:
        seen.keep([len(ids)])
        mx.eval(seen.logits, seen.state)
    return seen.logits[0, -1]


def halved(make: Callable[[], nn.Module]) -> nn.Module:
    model = make()
    model.set_dtype(mx.bfloat16)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_a_slot_goes_on_from_its_snapshot_as_if_nothing_had_happened(family: str) -> None:
    target = Target(tiny.TARGETS[family](), 3, 64)
    run(target, 0, PROMPT)
    snapshot = target.snapshot(0)
    expected = run(target, 0, (5,))
    run(target, 2, (7, 7, 7, 7))
    target.put(2, snapshot)
    assert target.lengths == (len(PROMPT) + 1, 0, len(PROMPT))
    assert mx.array_equal(run(target, 2, (5,)), expected)


def test_a_snapshot_is_of_no_use_to_nobody_else() -> None:
    target = Target(tiny.llama(), 1, 64)
    run(target, 0, PROMPT)
    other = Target(tiny.qwen3(), 1, 64)
    run(other, 0, (1, 2))
    with pytest.raises(ValueError, match="another model"):
        other.put(0, target.snapshot(0))
    short = Target(tiny.llama(), 1, len(PROMPT) - 1)
    with pytest.raises(ValueError, match="exceed the context"):
        short.put(0, target.snapshot(0))
    assert (other.lengths, short.lengths) == ((2,), (0,))


def test_an_empty_slot_has_a_snapshot_too() -> None:
    target = Target(tiny.lfm2(), 2, 64)
    run(target, 1, PROMPT)
    target.put(1, target.snapshot(0))
    assert target.lengths == (0, 0)
    assert mx.array_equal(run(target, 1, PROMPT), run(target, 0, PROMPT))


@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_a_file_holds_tokens_and_columns_of_every_type(family: str, tmp_path: Path) -> None:
    target = Target(halved(tiny.TARGETS[family]), 2, 64)
    run(target, 0, PROMPT)
    size = slot_file.write(tmp_path / "s", "this model", PROMPT, target.snapshot(0))
    held = slot_file.read(tmp_path / "s", "this model")
    assert (held.tokens, held.size) == (PROMPT, size)
    assert size == (tmp_path / "s").stat().st_size
    target.put(1, held.snapshot)
    assert mx.array_equal(run(target, 1, (5,)), run(target, 0, (5,)))
    with pytest.raises(SlotFileError, match="another model"):
        slot_file.read(tmp_path / "s", "that model")


def test_a_file_cut_at_any_byte_of_its_header_or_its_end_is_refused(tmp_path: Path) -> None:
    target = Target(tiny.llama(), 1, 64)
    run(target, 0, PROMPT)
    slot_file.write(tmp_path / "whole", "m", PROMPT, target.snapshot(0))
    whole = (tmp_path / "whole").read_bytes()
    header = LEAD.size + LEAD.unpack(whole[: LEAD.size])[2]
    for cut in (*range(header + 1), len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(SlotFileError):
            slot_file.read(tmp_path / "cut", "m")
    (tmp_path / "long").write_bytes(whole + b"x")
    with pytest.raises(SlotFileError):
        slot_file.read(tmp_path / "long", "m")


def test_a_file_changed_in_any_byte_of_its_header_or_in_a_block_is_refused(tmp_path: Path) -> None:
    target = Target(tiny.llama(), 1, 64)
    run(target, 0, PROMPT)
    slot_file.write(tmp_path / "whole", "m", PROMPT, target.snapshot(0))
    whole = (tmp_path / "whole").read_bytes()
    header = LEAD.size + LEAD.unpack(whole[: LEAD.size])[2]
    for at in (*range(header), header, len(whole) - 1):
        changed = bytearray(whole)
        changed[at] ^= 1
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(SlotFileError):
            slot_file.read(tmp_path / "changed", "m")


@pytest.mark.parametrize("header", [b"{", b"[]", b"{}", b'{"model":"m","tokens":1}', b"[" * 100_000])
def test_a_forged_header_is_refused(header: bytes, tmp_path: Path) -> None:
    import zlib

    lead = LEAD.pack(slot_file.MAGIC, slot_file.VERSION, len(header), zlib.crc32(header))
    (tmp_path / "forged").write_bytes(lead + header)
    with pytest.raises(SlotFileError):
        slot_file.read(tmp_path / "forged", "m")


def test_a_file_that_cannot_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(tiny.llama(), 1, 64)
    slot_file.write(tmp_path / "s", "m", (), target.snapshot(0))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    run(target, 0, PROMPT)
    with pytest.raises(OSError, match="No space left"):
        slot_file.write(tmp_path / "s", "m", PROMPT, target.snapshot(0))
    monkeypatch.undo()
    assert slot_file.read(tmp_path / "s", "m").tokens == ()
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
