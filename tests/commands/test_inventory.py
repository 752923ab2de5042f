from pathlib import Path

import pytest

from stoker.commands import inventory


@pytest.mark.mlx
def test_every_device_has_a_line() -> None:
    lines = list(inventory.devices())
    assert lines
    assert all(line.startswith(f"MLX{n}: ") for n, line in enumerate(lines))


def repository(root: Path, folder: str) -> None:
    """A cache entry of huggingface_hub with one empty revision."""
    snapshot = root / folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (root / folder / "refs").mkdir()
    (root / folder / "refs" / "main").write_text("abc", encoding="utf-8")
    (snapshot / "config.json").write_text("{}", encoding="utf-8")


def test_cached_repositories_and_fetched_files_are_listed_by_name(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    repository(hub, "models--user--b")
    repository(hub, "models--user--a")
    repository(hub, "datasets--user--c")
    own = tmp_path / "own" / "deep"
    own.mkdir(parents=True)
    (own / "m.gguf").touch()
    assert list(inventory.models(tmp_path / "own", hub)) == ["user/a", "user/b", str(own / "m.gguf")]


def test_no_cache_at_all_is_no_model(tmp_path: Path) -> None:
    assert list(inventory.models(tmp_path / "none", tmp_path / "nothing")) == []
