"""The format on its own; through the engine in tests/rounds/test_shelf.py, with real caches in test_snapshot.py."""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from stoker.models.slot_file import LEAD, MAGIC, VERSION, SlotFileError, read, write
from stoker.models.snapshot import Block, Snapshot

pytestmark = pytest.mark.mlx

TOKENS = (5, 6, 7)
MODEL = "a model"


def snapshot() -> Snapshot:
    def block(seed: int) -> Block:
        data = np.frombuffer(np.random.default_rng(seed).bytes(24), np.uint8)
        return Block("float32", (1, 3, 2), data)

    return Snapshot(3, ((block(1), block(2)), (block(3),)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "slot", MODEL, TOKENS, snapshot())
    return tmp_path / "slot"


def with_header(path: Path, **changes: object) -> Path:
    """The file with other facts in a header that is whole."""
    data = path.read_bytes()
    length = LEAD.unpack(data[: LEAD.size])[2]
    facts = json.loads(data[LEAD.size : LEAD.size + length]) | changes
    header = json.dumps(facts).encode()
    lead = LEAD.pack(MAGIC, VERSION, len(header), zlib.crc32(header))
    path.write_bytes(lead + header + data[LEAD.size + length :])
    return path


def test_what_is_written_is_read(file: Path) -> None:
    held = read(file, MODEL)
    assert (held.tokens, held.size, held.snapshot.length) == (TOKENS, file.stat().st_size, 3)
    for mine, theirs in zip(snapshot().layers, held.snapshot.layers, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert np.array_equal(one.data, other.data)


def test_a_file_takes_the_place_of_an_older_one_and_nothing_else_stays(file: Path) -> None:
    write(file, MODEL, (1, 2, 3), snapshot())
    assert read(file, MODEL).tokens == (1, 2, 3)
    assert [path.name for path in file.parent.iterdir()] == ["slot"]


def test_a_file_of_another_model_or_version_or_kind_is_refused(file: Path) -> None:
    with pytest.raises(SlotFileError, match="another model"):
        read(file, "other")
    data = file.read_bytes()
    file.write_bytes(data[:8] + struct.pack("<I", VERSION + 1) + data[12:])
    with pytest.raises(SlotFileError, match="version"):
        read(file, MODEL)


def test_every_cut_and_every_changed_byte_is_noticed(file: Path) -> None:
    data = file.read_bytes()
    for place in range(len(data)):
        file.write_bytes(data[:place])
        with pytest.raises(SlotFileError):
            read(file, MODEL)
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(SlotFileError):
            read(file, MODEL)
    file.write_bytes(data + b"x")
    with pytest.raises(SlotFileError, match="not whole"):
        read(file, MODEL)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": [1, 2]},
        {"tokens": "x"},
        {"columns": 9},
        {"layers": []},
        {"layers": [[["float32", [1], -5]]]},
        {"crc": 0},
    ],
)
def test_a_whole_header_that_says_something_else_is_refused(file: Path, changes: dict[str, object]) -> None:
    with pytest.raises(SlotFileError):
        read(with_header(file, **changes), MODEL)
