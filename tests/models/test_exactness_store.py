import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models import tiny
from stoker.core.info import ModelInfo
from stoker.models.comparison import Comparison
from stoker.models.exactness import Report, Window
from stoker.models.exactness_store import FOLDER, Store
from stoker.models.load import Loaded
from stoker.models.shelf import Subject, subject

pytestmark = pytest.mark.mlx
SUBJECT = Subject("model", "files", "float32", "device", "blas", "software")
REPORT = Report(
    4, 8, Window.COSTLY, {2: Comparison(10, 3, 1e-5, 1e-6, 0.0)}, {1: Comparison(5), 2: Comparison(10, 1, 0.5)}, 4.2
)


def loaded(path: Path, *, parameters: int = 10, weights: str = "float32") -> Loaded:
    info = ModelInfo(str(path), "llama", "Q4_1", 128, 64, 64, parameters, 100)
    return Loaded(tiny.llama(num_hidden_layers=1), {}, info, {}, None, None, weights)


def test_a_report_comes_back_as_it_was(tmp_path: Path) -> None:
    Store(tmp_path, SUBJECT).save(REPORT)
    assert Store(tmp_path, SUBJECT).load() == REPORT
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [SUBJECT.name]


def test_without_a_file_there_is_none(tmp_path: Path) -> None:
    assert Store(tmp_path, SUBJECT).load() is None


@pytest.mark.parametrize("name", ["files", "blas", "software"])
def test_another_model_machine_or_version_takes_the_place_of_the_old_report(tmp_path: Path, name: str) -> None:
    Store(tmp_path, SUBJECT).save(REPORT)
    changed = Store(tmp_path, replace(SUBJECT, **{name: "other"}))
    assert changed.load() is None
    changed.save(REPORT)
    assert changed.load() == REPORT
    assert Store(tmp_path, SUBJECT).load() is None


@pytest.mark.parametrize("name", ["model", "weights", "device"])
def test_models_and_devices_are_kept_side_by_side(tmp_path: Path, name: str) -> None:
    other = Store(tmp_path, replace(SUBJECT, **{name: "other"}))
    other.save(replace(REPORT, seconds=1.0))
    Store(tmp_path, SUBJECT).save(REPORT)
    assert other.load() == replace(REPORT, seconds=1.0)
    assert Store(tmp_path, SUBJECT).load() == REPORT


def _without(report: dict[str, Any]) -> None:
    del report["block"]


def _wrong_type(report: dict[str, Any]) -> None:
    report["company"] = [1, 2]


def _wrong_count(report: dict[str, Any]) -> None:
    report["block"]["2"]["differing"] = "none"


def _no_number(report: dict[str, Any]) -> None:
    report["block"]["2"]["largest"] = float("nan")


def _wrong_word(report: dict[str, Any]) -> None:
    report["window"] = "open"


def test_a_report_of_another_version_of_the_probe_is_as_good_as_none(tmp_path: Path) -> None:
    store = Store(tmp_path, SUBJECT)
    store.save(REPORT)
    held = json.loads(store.shelf.path.read_text())
    held["content"]["version"] += 1
    store.shelf.path.write_text(json.dumps(held))
    assert store.load() is None


def _wrong_width(report: dict[str, Any]) -> None:
    report["block"]["two"] = report["block"]["2"]


@pytest.mark.parametrize("spoil", [_without, _wrong_type, _wrong_count, _no_number, _wrong_word, _wrong_width])
def test_a_report_that_is_not_whole_is_as_good_as_none(
    tmp_path: Path, spoil: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path, SUBJECT)
    store.save(REPORT)
    held = json.loads(store.shelf.path.read_text())
    spoil(held["content"]["report"])
    store.shelf.path.write_text(json.dumps(held))
    assert store.load() is None
    assert "cannot be used" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"subject": 1}', b"[" * 100_000])
def test_a_corrupt_file_is_as_good_as_none_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    store = Store(tmp_path, SUBJECT)
    store.shelf.path.parent.mkdir()
    store.shelf.path.write_bytes(content)
    assert store.load() is None
    store.save(REPORT)
    assert store.load() == REPORT


def test_a_place_that_cannot_be_written_or_read_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FOLDER).write_text("a file where a folder should be")
    store = Store(tmp_path, SUBJECT)
    store.save(REPORT)
    assert "cannot be kept" in caplog.text
    assert store.load() is None
    elsewhere = Store(tmp_path / "more", SUBJECT)
    elsewhere.shelf.path.mkdir(parents=True)
    assert elsewhere.load() is None
    elsewhere.save(REPORT)
    assert elsewhere.shelf.path.is_dir()


# What a report is about


def test_a_file_that_was_touched_or_changed_is_another_subject(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"1234")
    os.utime(path, ns=(10, 10))
    first = subject(loaded(path), None)
    assert subject(loaded(path), None) == first
    assert first.model == str(path.resolve())
    os.utime(path, ns=(10, 11))
    touched = subject(loaded(path), None)
    path.write_bytes(b"12345")
    os.utime(path, ns=(10, 10))
    grown = subject(loaded(path), None)
    assert len({first.files, touched.files, grown.files}) == 3


def test_a_directory_is_known_by_its_weights_and_configuration(tmp_path: Path) -> None:
    for name in ("config.json", "model-1.safetensors", "model-2.safetensors", "README.md"):
        (tmp_path / name).write_text(name)
    first = subject(loaded(tmp_path), None)
    (tmp_path / "README.md").write_text("changed")
    assert subject(loaded(tmp_path), None) == first
    (tmp_path / "model-2.safetensors").write_text("changed")
    assert subject(loaded(tmp_path), None).files != first.files


def test_weights_layers_and_blas_tell_subjects_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"1")
    first = subject(loaded(path), None)
    assert first.name != subject(loaded(path, parameters=9), None).name
    assert first.name != subject(loaded(path, weights="packed (4-bit)"), None).name
    assert first.blas == "as built"
    assert first.blas != subject(loaded(path), str(path)).blas == str(path.resolve())
    assert "mlx " in first.software
    assert "cores" in first.device


def test_a_link_to_the_blas_is_followed_so_that_a_new_version_shows(tmp_path: Path) -> None:
    path, link = tmp_path / "m.gguf", tmp_path / "libblas.so.0"
    path.write_bytes(b"1")
    seen: list[str] = []
    for version in ("1", "2"):
        (tmp_path / f"libblas-{version}.so").touch()
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / f"libblas-{version}.so")
        seen.append(subject(loaded(path), str(link)).blas)
    assert seen[0] != seen[1]
