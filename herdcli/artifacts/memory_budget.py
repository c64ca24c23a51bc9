"""The memory that an input may take: half of what is available, unless the user sets a limit."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from herdcli.artifacts.message_numbers import format_size
from herdcli.errors import DataError

FALLBACK = 1 << 30


def default_memory_limit() -> int:
    """Return half of the memory that this process can still use, in bytes."""
    return available_memory() // 2


def available_memory() -> int:
    """Return the smallest of: the machine's free memory, the rest of the control group's limit, the address-space limit."""
    return min(_memory_bounds(), default=FALLBACK)


def _memory_bounds() -> Iterator[int]:
    for line in _read_lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        bounds = [line.strip() for name in (limit, used) for line in _read_lines(f"/sys/fs/cgroup/{name}")]
        if len(bounds) == 2 and all(bound.isdigit() for bound in bounds):
            yield max(0, int(bounds[0]) - int(bounds[1]))
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft
    if hasattr(os, "sysconf") and not Path("/proc/meminfo").exists():
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def require_memory(declared: int, limit: int, *, where: str) -> None:
    """Raise DataError if an input that declares this many bytes exceeds the limit."""
    if declared > limit:
        hint = "raise --max-memory if the machine has it"
        raise DataError(f"needs {format_size(declared)} of memory, more than the {format_size(limit)} allowed", where=where, hint=hint)
