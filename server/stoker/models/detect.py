"""What kind of drafter a checkpoint is, by its structure: its configuration and the names of its tensors.

Names of folders and repositories decide nothing, and neither does `model_type` alone: a DFlash
drafter calls itself `qwen3`. The table of tests and their order are spec/drafters.md section 8.
Nothing is loaded: this runs before any weight is read. Knows no MLX.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from stoker.core.counters import Kind
from stoker.core.errors import StartError

Config = Mapping[str, Any]

GEMMA_ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")
QWEN_SIDECAR = "qwen3_5_mtp"
GLIMMER_TYPE, GLIMMER_CLASS = "muse_glimmer_assistant", "MuseGlimmerAssistantModel"
DSPARK_CLASSES = ("Lfm2DSparkDraftModel", "Qwen3DSparkModel")
DFLASH_CLASS, DFLASH2_CLASS = "DFlashDraftModel", "DFlash2DraftModel"
LONGEST_HEADER = 2**27
"""Bytes; a safetensors header that claims more is damaged."""


@dataclass(frozen=True, slots=True)
class Detected:
    """What a checkpoint is, as a drafter and by itself."""

    kind: Kind
    evidence: str
    """What in the checkpoint says so."""
    standalone: bool
    """True: it is a whole model, which can be a target too."""
    block_size: int | None = None
    """As its configuration has it: columns for dflash, glimmer and mtp, proposals for dspark. None: it is silent."""
    refused: str = ""
    """Why nobody can use it, if so."""


def detect(config: Config, tensors: Collection[str] = ()) -> Detected:
    """The kind of a checkpoint with this config.json and these tensor names."""
    kind, evidence = _kind(config, tensors)
    whole = kind is Kind.DRAFT_MODEL
    if kind is Kind.MTP and _model_type(config) not in (*GEMMA_ASSISTANTS, QWEN_SIDECAR):
        whole = any(name.endswith("embed_tokens.weight") for name in tensors)
    refused = ""
    if DFLASH2_CLASS in _classes(config):
        refused = f"a {DFLASH2_CLASS} chooses among candidates with convolutions of its own, which is not supported"
    return Detected(kind, evidence, whole, _block_size(config), refused)


def inspect(path: Path) -> Detected:
    """The same of a directory; a GGUF file is a whole model, of whatever architecture.

    Raises StartError if there is nothing, or a config.json that cannot be read.
    """
    if not path.exists():
        raise StartError(f"no model at {path}")
    config = path / "config.json"
    if not path.is_dir() or not config.exists():
        return Detected(Kind.DRAFT_MODEL, "no config.json", standalone=True)
    try:
        found = json.loads(config.read_text("utf-8"))
    except ValueError as error:
        raise StartError(f"{config} is no JSON: {error}") from error
    return detect(cast("Config", found) if isinstance(found, dict) else {}, set(_tensor_names(path)))


def require_whole(path: Path) -> None:
    """Raises StartError, one line, if the checkpoint can only draft for another model."""
    found = inspect(path)
    if not found.standalone:
        raise StartError(
            f"{path} is not a standalone model but a {found.kind} drafter ({found.evidence}): "
            "give stoker-server its target with -m and this with --draft-model"
        )


def _kind(config: Config, tensors: Collection[str]) -> tuple[Kind, str]:
    """The first test of the table that finds something."""
    found = ((kind, evidence) for kind, evidence in _tests(config, tensors) if evidence)
    return next(found, (Kind.DRAFT_MODEL, f"model_type {_model_type(config) or 'unknown'}"))


def _tests(config: Config, tensors: Collection[str]) -> Iterator[tuple[Kind, str]]:
    """Kinds with the evidence for them, empty where there is none, in the table's order."""
    model_type, classes, nested = _model_type(config), _classes(config), _nested(config)
    yield Kind.MTP, _typed(model_type, GEMMA_ASSISTANTS)
    yield Kind.GLIMMER, _typed(model_type, (GLIMMER_TYPE,)) or _classed(classes, (GLIMMER_CLASS,))
    yield Kind.MTP, _typed(model_type, (QWEN_SIDECAR,))
    yield Kind.MTP, "mtp.* tensors" if any(".mtp." in f".{name}" for name in tensors) else ""
    yield Kind.DFLASH, _classed(classes, (DFLASH2_CLASS,))
    yield Kind.DSPARK, _markov(config) or _markov(nested or {}) or _classed(classes, DSPARK_CLASSES)
    yield Kind.DFLASH, "a dflash_config" if nested is not None else _classed(classes, (DFLASH_CLASS,))


def _typed(model_type: str, wanted: Collection[str]) -> str:
    return f"model_type {model_type}" if model_type in wanted else ""


def _classed(classes: Collection[str], wanted: Collection[str]) -> str:
    return next((f"architecture {name}" for name in classes if name in wanted), "")


def _markov(settings: Config) -> str:
    """What says that each proposal looks at the one before it."""
    rank = settings.get("markov_rank")
    if isinstance(rank, int) and not isinstance(rank, bool) and rank > 0:
        return f"markov_rank {rank}"
    return "projector_type dspark" if settings.get("projector_type") == "dspark" else ""


def _model_type(config: Config) -> str:
    found = config.get("model_type")
    return found if isinstance(found, str) else ""


def _classes(config: Config) -> tuple[str, ...]:
    """The architectures, if they are a list: a string does not count."""
    found = config.get("architectures")
    return tuple(str(name) for name in cast("list[object]", found)) if isinstance(found, list) else ()


def _nested(config: Config) -> Config | None:
    """The `dflash_config`, if it is an object: a scalar does not count."""
    found = config.get("dflash_config")
    return cast("Config", found) if isinstance(found, dict) else None


def _block_size(config: Config) -> int | None:
    """A nested value overrides the outer one."""
    for settings in (_nested(config) or {}, config):
        found = settings.get("block_size")
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def _tensor_names(path: Path) -> Iterator[str]:
    """Names in the headers of the weight files: an index may name what a conversion has dropped."""
    for file in sorted(path.glob("*.safetensors")):
        yield from _header(file)


def _header(file: Path) -> Iterator[str]:
    """Names in one file; none if it is damaged, which whoever loads it will say better."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if size > LONGEST_HEADER:
            return
        try:
            found = json.loads(stream.read(size))
        except ValueError:
            return
    yield from (name for name in found if name != "__metadata__")
