"""compat/record.py against a server that stands in for llama-server: what it records, compat/check.py finds again."""

import sys
from pathlib import Path

import pytest

from compat import check, library, record

pytestmark = pytest.mark.mlx


@pytest.fixture(scope="session")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that takes llama-server's options. Its seed is fixed: Stoker prints the one that it drew."""
    file = tmp_path_factory.mktemp("bin") / "llama-server"
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stoker serve --seed 1 "$@"\n', encoding="utf-8")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("profile", ["api_key", "slot_save"])
def test_a_recorded_server_shows_no_difference_to_its_recordings(
    profile: str, executable: Path, tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "recordings"
    words = ["--server", str(executable), "--model", str(tiny_path), "--into", str(into), "--profile", profile]
    assert record.main(words) == 0
    cases = library.cases(profile, recordings=None)
    assert len(list(into.glob("*/*.json"))) == len(cases)
    assert str(tmp_path) not in "".join(file.read_text(encoding="utf-8") for file in into.glob("*/*.json"))
    told = [one.replace("{TMP}", str(tmp_path)) for one in library.profile(profile).server_args]
    command = [str(executable), "-m", str(tiny_path), *told]
    with record.serving(command, tmp_path / "log", 60) as url:
        asked = ["--url", url, "--profile", profile, "--recordings", str(into), "--original", "--all"]
        capsys.readouterr()
        assert check.main(asked) == 0, capsys.readouterr().out
        changed = next(iter(sorted(into.glob("*/*.json"))))
        changed.write_text(changed.read_text(encoding="utf-8").replace('"status": 200', '"status": 201'))
        assert check.main(asked) == 1
