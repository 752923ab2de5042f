from pathlib import Path

import gguf
import numpy as np
import pytest

from gguf_samples import finish
from stoker.core.errors import StartError
from stoker.models.gguf_file import read_header


def _file(path: Path, alignment: int | None = None) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_uint32("a.number", 7)
    writer.add_bool("a.flag", True)
    writer.add_float32("a.float", 0.5)
    writer.add_float64("a.double", 0.1)
    writer.add_string("a.text", "naïve")
    writer.add_array("a.words", ["x", "", "▁y"])
    writer.add_array("a.counts", [3, -1, 2])
    writer.add_tensor("one.weight", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("two.weight", np.ones((4, 8), np.float16))
    finish(writer)
    return path


@pytest.mark.parametrize("alignment", [None, 128])
def test_metadata_and_tensors_are_what_was_written(alignment: int | None, tmp_path: Path) -> None:
    path = _file(tmp_path / "m.gguf", alignment)
    file = read_header(path)
    assert {key: value for key, value in file.metadata.items() if key.startswith("a.")} == {
        "a.number": 7,
        "a.flag": True,
        "a.float": 0.5,
        "a.double": 0.1,
        "a.text": "naïve",
        "a.words": ["x", "", "▁y"],
        "a.counts": [3, -1, 2],
    }
    assert file.has_doubles
    theirs = gguf.GGUFReader(path).tensors
    assert [(t.name, t.offset, t.nbytes) for t in file.tensors] == [(t.name, t.data_offset, t.n_bytes) for t in theirs]
    assert [tensor.shape for tensor in file.tensors] == [(2, 3), (4, 8)]


def test_a_file_cut_anywhere_is_refused_with_one_line(tmp_path: Path) -> None:
    whole = _file(tmp_path / "m.gguf").read_bytes()
    for length in (5, 30, 100, 300, len(whole) - 64):
        cut = tmp_path / f"cut{length}.gguf"
        cut.write_bytes(whole[:length])
        with pytest.raises(StartError, match="is cut short") as caught:
            read_header(cut)
        assert "\n" not in str(caught.value)


def test_how_many_bytes_are_missing_is_said(tmp_path: Path) -> None:
    path = _file(tmp_path / "m.gguf")
    last = read_header(path).tensors[-1]
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[: last.offset + last.nbytes - 11])
    with pytest.raises(StartError, match="11 bytes of its tensors are missing"):
        read_header(cut)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "does not begin with the letters GGUF"),
        (b"GGML" + bytes(60), "does not begin with the letters GGUF"),
        (b"GGUF\x01\0\0\0" + bytes(60), "version 1"),
        (b"GGUF\0\0\0\x03" + bytes(60), "version 50331648"),
    ],
)
def test_what_is_no_gguf_file_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(StartError, match=says):
        read_header(path)


def test_an_odd_value_type_or_tensor_type_is_refused(tmp_path: Path) -> None:
    whole = bytearray(_file(tmp_path / "m.gguf").read_bytes())
    at = whole.index(b"a.number") + len(b"a.number")
    whole[at] = 99
    path = tmp_path / "odd.gguf"
    path.write_bytes(whole)
    with pytest.raises(StartError, match="unknown metadata value type 99"):
        read_header(path)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="No such file"):
        read_header(tmp_path / "none.gguf")
