"""The hub's cache is made up here in huggingface_hub's own layout; nothing is fetched."""

from pathlib import Path

import pytest

from stoker.core.errors import StartError
from stoker.models import hub as module
from stoker.models.hub import Hub, choose, fetch

FILES = ("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "mmproj-m-F16.gguf", "README.md")


def _cache(root: Path, repo: str, names: tuple[str, ...], revision: str = "a" * 40) -> Hub:
    place = root / f"models--{repo.replace('/', '--')}"
    snapshot = place / "snapshots" / revision
    (place / "blobs").mkdir(parents=True, exist_ok=True)
    (place / "refs").mkdir(exist_ok=True)
    (place / "refs" / "main").write_text(revision)
    for name in names:
        blob = place / "blobs" / f"{revision[:4]}-{name.replace('/', '-')}"
        blob.write_text(name)
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).symlink_to(blob)
    return Hub(offline=True, cache=root)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("someone/model", "m-Q4_K_M.gguf"),
        ("someone/model:Q8_0", "m-Q8_0.gguf"),
        ("someone/model:q4_k_s", "m-Q4_K_S.gguf"),
    ],
)
def test_the_quantisation_is_found_in_the_cache(spec: str, name: str, tmp_path: Path) -> None:
    found = fetch(spec, hub=_cache(tmp_path, "someone/model", FILES))
    assert found.name == name
    assert found.read_text() == name


def test_a_file_can_be_named(tmp_path: Path) -> None:
    hub = _cache(tmp_path, "someone/model", ("deep/odd.gguf",))
    assert fetch("someone/model", file="deep/odd.gguf", hub=hub).read_text() == "deep/odd.gguf"
    with pytest.raises(StartError, match=r"does not hold other\.gguf"):
        fetch("someone/model", file="other.gguf", hub=hub)


def test_without_gguf_files_the_directory_is_the_model(tmp_path: Path) -> None:
    hub = _cache(tmp_path, "mlx-community/model", ("config.json", "model.safetensors"))
    found = fetch("mlx-community/model", hub=hub)
    assert found.is_dir()
    assert {entry.name for entry in found.iterdir()} == {"config.json", "model.safetensors"}
    with pytest.raises(StartError, match="holds no GGUF file"):
        fetch("mlx-community/model:Q4_0", hub=hub)


def test_the_main_revision_is_taken(tmp_path: Path) -> None:
    _cache(tmp_path, "someone/model", ("config.json",), "b" * 40)
    hub = _cache(tmp_path, "someone/model", ("config.json",), "c" * 40)
    assert fetch("someone/model", hub=hub).name == "c" * 40


def test_what_the_cache_lacks_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    hub = _cache(tmp_path, "someone/model", ("README.md",))
    for spec, says in (
        ("someone/model", "only parts"),
        ("someone/other", "does not hold someone/other"),
    ):
        with pytest.raises(StartError, match=f"{says}.*without --offline"):
            fetch(spec, hub=hub)
    with pytest.raises(StartError, match="no Hugging Face cache"):
        fetch("someone/model", hub=Hub(offline=True, cache=tmp_path / "none"))


@pytest.mark.parametrize("spec", ["model", "a/b/c", "a/b:", "a b/c", ""])
def test_what_is_no_repository_is_refused(spec: str) -> None:
    with pytest.raises(StartError, match="is no model on the hub"):
        fetch(spec)


def test_a_choice_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(StartError, match=r"no GGUF file for 'Q2_K'; it has m-Q4_K_M\.gguf"):
        choose(FILES, "Q2_K", "someone/model")
    with pytest.raises(StartError, match="part of a split model"):
        choose(["m-Q4_K_M-00001-of-00002.gguf"], None, "someone/model")
    assert choose(["z.gguf", "a.gguf"], None, "someone/model") == "a.gguf"


class TestOnline:
    """With huggingface_hub's functions replaced: what they are asked for, and what their errors become."""

    def test_one_file_is_downloaded(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        asked: list[tuple[str, str, str | None]] = []

        def download(repo: str, name: str, *, token: str | None, cache_dir: Path | None) -> str:
            asked.append((repo, name, token))
            return str(tmp_path / name)

        monkeypatch.setattr(module.HfApi, "list_repo_files", lambda self, repo: list(FILES))
        monkeypatch.setattr(module, "hf_hub_download", download)
        assert fetch("someone/model:Q8_0", hub=Hub(token="t")) == tmp_path / "m-Q8_0.gguf"
        assert asked == [("someone/model", "m-Q8_0.gguf", "t")]

    def test_a_directory_is_downloaded_without_other_formats(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        asked: list[list[str]] = []

        def download(repo: str, *, token: str | None, cache_dir: Path | None, allow_patterns: list[str]) -> str:
            asked.append(allow_patterns)
            return str(tmp_path)

        monkeypatch.setattr(module.HfApi, "list_repo_files", lambda self, repo: ["config.json", "pytorch_model.bin"])
        monkeypatch.setattr(module, "snapshot_download", download)
        assert fetch("someone/model") == tmp_path
        assert "model*.safetensors" in asked[0]
        assert not any("bin" in pattern for pattern in asked[0])

    def test_no_network_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(self: object, repo: str) -> list[str]:
            raise module.HTTPError("no route\nto the host")

        monkeypatch.setattr(module.HfApi, "list_repo_files", fail)
        with pytest.raises(StartError, match="cannot fetch someone/model from the hub: no route; --offline") as caught:
            fetch("someone/model")
        assert "\n" not in str(caught.value)
