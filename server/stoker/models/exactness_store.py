"""Keeps the exactness probe's reports on disk, one file for a model on a machine, so that a start need not wait for it.

A report holds as long as nothing changed that decides how a number is rounded. What cannot be read
or speaks of something else is as good as none.
"""

import hashlib
import json
import logging
import math
import os
import platform
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import mlx.core as mx

from stoker import __version__
from stoker.models.comparison import Comparison
from stoker.models.exactness import VERSION, Report, Window
from stoker.models.load import Loaded

log = logging.getLogger(__name__)

FOLDER = "exactness"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a report is about. Two runs with equal subjects round alike."""

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
        software=f"mlx {version('mlx')}, mlx-lm {version('mlx-lm')}, stoker {__version__}, probe {VERSION}",
    )


class Store:
    """Where one subject's report is kept: below `cache`, the directory of Stoker's cached files."""

    def __init__(self, cache: Path, subject: Subject) -> None:
        self.subject = subject
        self.path = cache / FOLDER / subject.name

    def load(self) -> Report | None:
        """None if there is none, or none that can be read, or one about something else."""
        if not self.path.exists():
            return None
        try:
            held = json.loads(self.path.read_text("utf-8"))
            if held["subject"] != asdict(self.subject):
                log.info("exactness probe: model, machine or software changed since the last one")
                return None
            return _report(held["report"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("exactness probe: %s cannot be used and is written anew: %r", self.path, error)
            return None

    def save(self, report: Report) -> None:
        """The file appears whole or not at all. That it could not be written is logged, and harms nothing."""
        text = json.dumps({"subject": asdict(self.subject), "report": asdict(report)}, indent=1, allow_nan=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self.path.parent) as place:
                new = Path(place) / self.path.name
                new.write_text(text, "utf-8")
                new.replace(self.path)
        except OSError as error:
            log.warning("exactness probe: its report cannot be kept in %s: %s", self.path.parent, error)


def _files(place: Path) -> str:
    paths = sorted([place / "config.json", *place.glob("model*.safetensors")]) if place.is_dir() else [place]
    facts = ((path.name, path.stat()) for path in paths)
    return _digest([f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in facts])


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _report(data: Any) -> Report:
    """Raises KeyError, TypeError or ValueError for anything that `save` has not written."""
    return Report(
        rows=_count(data["rows"]),
        prompt=_count(data["prompt"]),
        window=Window(data["window"]),
        block=_comparisons(data["block"]),
        company=_comparisons(data["company"]),
        seconds=_figure(data["seconds"]),
    )


def _comparisons(data: object) -> dict[int, Comparison]:
    if not isinstance(data, dict):
        raise TypeError(f"{data!r} is no table")
    return {int(width): _comparison(figures) for width, figures in cast("dict[str, Any]", data).items()}


def _comparison(data: Any) -> Comparison:
    figures = [_figure(data[name]) for name in ("largest", "share", "margin")]
    return Comparison(_count(data["bytes"]), _count(data["differing"]), *figures)


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _figure(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is no figure")
    return float(value)
