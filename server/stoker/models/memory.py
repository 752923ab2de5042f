"""How much memory this process may still take."""

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def available(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int:
    """Bytes: what the kernel calls available, or less if a container's limit is nearer."""
    return min([_of_machine(meminfo), *_of_container(cgroup)])


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
