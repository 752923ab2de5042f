"""Models on the Hugging Face hub: `user/repo[:quant]` → a local file or directory. Knows no MLX."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, scan_cache_dir, snapshot_download
from huggingface_hub.errors import (
    CacheNotFound,
    GatedRepoError,
    HFValidationError,
    HTTPError,
    RepositoryNotFoundError,
)

from stoker.core.errors import StartError

SPEC = re.compile(r"(?P<repo>[^/:\s]+/[^/:\s]+)(:(?P<quant>[^:\s]+))?")
PREFERRED = ("Q4_K_M", "Q4_0", "Q4_1", "Q8_0")
"""llama-server's default, then the formats that MLX reads without converting."""
PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
DIRECTORY_FILES = ("*.json", "*.jinja", "*.txt", "*.model", "model*.safetensors", "additional_chat_templates/*")


@dataclass(frozen=True, slots=True)
class Hub:
    """How to reach the hub."""

    token: str | None = None
    """None: what huggingface_hub finds itself."""
    offline: bool = False
    """True: only what its cache holds."""
    cache: Path | None = None
    """None: huggingface_hub's own place."""


def fetch(spec: str, *, file: str | None = None, hub: Hub | None = None) -> Path:
    """Local path of a model: a GGUF file (`file`, or the one that fits `:quant`), else the repository's directory.

    Downloads with huggingface_hub's progress bar. Raises StartError, one line.
    """
    hub = hub or Hub()
    match = SPEC.fullmatch(spec)
    if match is None:
        raise StartError(f"{spec!r} is no model on the hub: write user/repo or user/repo:quant")
    repo, quant = match["repo"], match["quant"]
    return _cached(repo, quant, file, hub) if hub.offline else _download(repo, quant, file, hub)


def choose(names: Sequence[str], quant: str | None, repo: str) -> str | None:
    """The GGUF file to take; None if the repository holds none and its directory is the model.

    Raises StartError for a quantisation that is not there or comes in parts.
    """
    models = sorted(name for name in names if name.endswith(".gguf") and "mmproj" not in name)
    if not models:
        if quant is not None:
            raise StartError(f"{repo} holds no GGUF file, so there is no {quant!r} to choose: leave :{quant} out")
        return None
    found = _first_of(models, (quant,)) if quant else _first_of(models, PREFERRED) or models[0]
    if found is None:
        raise StartError(f"{repo} holds no GGUF file for {quant!r}; it has {', '.join(models)}")
    if PART.search(found):
        raise StartError(f"{found} in {repo} is a part of a split model: choose a quantisation in one file")
    return found


def _first_of(models: Sequence[str], quants: Sequence[str]) -> str | None:
    for quant in quants:
        # As a word: Q4_K must not find Q4_K_M.
        pattern = re.compile(rf"(^|[^A-Za-z0-9]){re.escape(quant)}($|[^A-Za-z0-9_])", re.IGNORECASE)
        for name in models:
            if pattern.search(name):
                return name
    return None


def _cached(repo: str, quant: str | None, file: str | None, hub: Hub) -> Path:
    """Raises StartError if the cache lacks the model."""
    files = _cached_files(repo, hub)
    name = file or choose(list(files), quant, repo)
    if name is None:
        config = files.get("config.json")
        if config is None:
            raise StartError(f"the cache holds only parts of {repo}: start once without --offline")
        return config.parent
    if name not in files:
        raise StartError(f"the cache does not hold {name} of {repo}: start once without --offline")
    return files[name]


def _cached_files(repo: str, hub: Hub) -> dict[str, Path]:
    """Files of the newest cached revision, by their path in the repository."""
    try:
        cache = scan_cache_dir(hub.cache)
    except CacheNotFound as error:
        raise StartError(f"--offline: there is no Hugging Face cache, so no {repo}: start once without it") from error
    revisions = [
        revision
        for found in cache.repos
        if found.repo_id == repo and found.repo_type == "model"
        for revision in found.revisions
    ]
    if not revisions:
        raise StartError(f"the cache does not hold {repo}: start once without --offline")
    newest = max(revisions, key=lambda revision: ("main" in revision.refs, revision.last_modified))
    return {str(entry.file_path.relative_to(newest.snapshot_path)): entry.file_path for entry in newest.files}


def _download(repo: str, quant: str | None, file: str | None, hub: Hub) -> Path:
    try:
        name = file or choose(HfApi(token=hub.token).list_repo_files(repo), quant, repo)
        if name is None:
            patterns: list[str] = [*DIRECTORY_FILES]
            return Path(snapshot_download(repo, token=hub.token, cache_dir=hub.cache, allow_patterns=patterns))
        return Path(hf_hub_download(repo, name, token=hub.token, cache_dir=hub.cache))
    except GatedRepoError as error:
        raise StartError(f"{repo} is gated: accept its terms on the hub and pass --hf-token") from error
    except RepositoryNotFoundError as error:
        raise StartError(f"the hub has no {repo}, or only for those with a token (--hf-token)") from error
    except (HTTPError, HFValidationError, OSError) as error:
        first = (str(error).splitlines() or [repr(error)])[0]
        raise StartError(f"cannot fetch {repo} from the hub: {first}; --offline uses what is cached") from error
