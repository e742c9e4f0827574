"""How much memory and disk there is, and a refusal of what would not fit: before any work, with both numbers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from common.core.errors import BadScenario

SPARE = 256 << 20
"""Bytes that are left free: for the work itself, and for the rest of the machine."""
_GROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Return how many bytes this process may still take, without swapping: the machine's and its control group's."""
    machine = _machine()
    group = _group()
    return machine if group is None else min(machine, group)


def _machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        facts = dict(line.split(":", 1) for line in lines)
        return int(facts["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        # No Linux: all there is, of which some is taken.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _group() -> int | None:
    try:
        limit = int((_GROUP / "memory.max").read_text())
        used = int((_GROUP / "memory.current").read_text())
        facts = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        return limit - used + int(facts["inactive_file"])
    except (OSError, KeyError, ValueError):
        return None


def available_disk(folder: Path) -> int:
    """Return how many bytes may still be written where ``folder`` is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_memory(what: str, needed: int, remedy: str) -> None:
    """Refuse what does not fit into memory.

    Raises
    ------
    BadScenario
        Saying how much is needed and available, and what to do.
    """
    _check(what, "memory", needed, available_memory(), remedy)


def check_disk(what: str, needed: int, folder: Path, remedy: str) -> None:
    """Refuse what does not fit on the disk that ``folder`` is on.

    Raises
    ------
    BadScenario
        Saying how much is needed and available, and what to do.
    """
    _check(what, f"disk at {folder}", needed, available_disk(folder), remedy)


def _check(what: str, where: str, needed: int, available: int, remedy: str) -> None:
    if needed + SPARE > available:
        raise BadScenario(f"{what} needs {size(needed + SPARE)} of {where}, {size(available)} are available: {remedy}")


def size(count: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"
