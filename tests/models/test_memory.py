from pathlib import Path

import pytest

from stoker.models.memory import available, give_back

GIB = 2**30


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal: {8 * GIB // 1024} kB\nMemAvailable: {4 * GIB // 1024} kB\n")
    return path


def limited(folder: Path, limit: str, used: int) -> Path:
    folder.mkdir()
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    return folder


def test_the_kernels_word_counts_where_there_is_no_limit(meminfo: Path, tmp_path: Path) -> None:
    assert available(meminfo, tmp_path / "none") == 4 * GIB
    assert available(meminfo, limited(tmp_path / "max", "max", GIB)) == 4 * GIB


def test_a_containers_limit_counts_if_it_is_nearer(meminfo: Path, tmp_path: Path) -> None:
    assert available(meminfo, limited(tmp_path / "near", str(2 * GIB), GIB)) == GIB
    assert available(meminfo, limited(tmp_path / "far", str(32 * GIB), GIB)) == 4 * GIB
    assert available(meminfo, limited(tmp_path / "over", str(GIB), 2 * GIB)) == 0


def test_the_older_interface_is_read_too(meminfo: Path, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(str(3 * GIB))
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text(str(GIB))
    assert available(meminfo, tmp_path) == 2 * GIB


def test_without_a_kernels_word_the_machines_size_stands_in(tmp_path: Path) -> None:
    assert available(tmp_path / "none", tmp_path / "none") > GIB // 4


def test_memory_can_be_given_back_at_any_time() -> None:
    give_back()
