"""What `--list-devices` and `--cache-list` print: the devices MLX has, and the models already on this machine."""

from collections.abc import Iterator
from pathlib import Path

MIB = 2**20


def devices() -> Iterator[str]:
    """One line for each device of the default kind; memory where MLX knows it."""
    import mlx.core as mx

    kind = mx.default_device().type
    for index in range(mx.device_count(kind)):
        info = mx.device_info(mx.Device(kind, index))
        name, memory = info.get("device_name", "unknown"), info.get("memory_size")
        size = f" ({int(memory) // MIB} MiB)" if memory else ""
        yield f"MLX{index}: {name}, {kind.name}{size}"


def models(cache: Path, hub: Path | None = None) -> Iterator[str]:
    """Repositories in huggingface_hub's cache (`hub`; None: where it keeps it), then GGUF files under our own `cache`.

    Each sorted by name.
    """
    yield from sorted(_repositories(hub))
    yield from sorted(str(path) for path in cache.rglob("*.gguf"))


def _repositories(hub: Path | None) -> Iterator[str]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        found = scan_cache_dir(hub)
    except CacheNotFound:
        return
    yield from (repo.repo_id for repo in found.repos if repo.repo_type == "model")
