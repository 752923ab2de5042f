"""What was measured once and is kept on disk: one JSON file for a model on a machine, below Stoker's cache directory.

What cannot be read, or speaks of another model, machine or software, is as good as none.
"""

import hashlib
import json
import logging
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import mlx.core as mx

from stoker import __version__
from stoker.models.load import Loaded

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a measurement is about. Two runs with equal subjects round alike and take as long."""

    model: str
    """Absolute path."""
    files: str
    """A digest of the names, sizes and times of its files."""
    weights: str
    """How they are held, and how many: fewer layers may have been loaded."""
    device: str
    blas: str
    software: str

    @property
    def name(self) -> str:
        """Of its file. A later version, or a changed model, takes the place of the earlier."""
        return _digest([self.model, self.weights, self.device]) + ".json"


def subject(loaded: Loaded, blas: str | None) -> Subject:
    """`blas` is the library that stands before MLX's own, None if none does. Raises OSError if the model is gone."""
    place = Path(loaded.info.path).expanduser().resolve()
    device = mx.default_device()
    facts = mx.device_info(device)
    return Subject(
        model=str(place),
        files=_files(place),
        weights=f"{loaded.weights}, {loaded.info.parameters} parameters",
        device=f"{platform.machine()} {device} {facts.get('device_name', '')}, {os.cpu_count()} cores",
        blas=str(Path(blas).resolve()) if blas else "as built",
        software=f"mlx {version('mlx')}, mlx-lm {version('mlx-lm')}, stoker {__version__}",
    )


class Shelf:
    """Where one subject's measurements of one kind are kept."""

    def __init__(self, cache: Path, folder: str, subject: Subject) -> None:
        """`cache` is the directory of Stoker's cached files, `folder` the kind's name below it."""
        self.subject, self.folder = subject, folder
        self.path = cache / folder / subject.name

    def load(self) -> Mapping[str, Any] | None:
        """None if there is nothing, or nothing that can be read, or something about another subject."""
        if not self.path.exists():
            return None
        try:
            held = json.loads(self.path.read_text("utf-8"))
            if held["subject"] != asdict(self.subject):
                log.info("%s: model, machine or software changed since the last measurement", self.folder)
                return None
            return cast("Mapping[str, Any]", held["content"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            self.doubt(error)
            return None

    def doubt(self, error: Exception) -> None:
        """Says that the file cannot be used; it is written anew in time."""
        log.warning("%s: %s cannot be used and is written anew: %r", self.folder, self.path, error)

    def save(self, content: Mapping[str, Any]) -> None:
        """The file appears whole or not at all. That it could not be written is logged, and harms nothing."""
        text = json.dumps({"subject": asdict(self.subject), "content": content}, indent=1, allow_nan=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self.path.parent) as place:
                new = Path(place) / self.path.name
                new.write_text(text, "utf-8")
                new.replace(self.path)
        except OSError as error:
            log.warning("%s: cannot be kept in %s: %s", self.folder, self.path.parent, error)


def digest(place: Path) -> str:
    """Of a checkpoint's files: where they lie, their sizes and times. OSError if they are gone."""
    return _digest([str(place.expanduser().resolve()), _files(place.expanduser())])


def _files(place: Path) -> str:
    paths = sorted([place / "config.json", *place.glob("*.safetensors")]) if place.is_dir() else [place]
    facts = ((path.name, path.stat()) for path in paths)
    return _digest([f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in facts])


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
