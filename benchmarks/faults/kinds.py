"""What goes wrong, by name: each is there while its context lasts, and gone afterwards."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from benchmarks.faults.deployment import Deployment

Fault = Callable[[Deployment, str], AbstractContextManager[None]]


@contextmanager
def full(parties: Deployment, name: str) -> Iterator[None]:
    """Fill a party's disk to the last byte."""
    ballast = parties.state(name) / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(ballast.parent).free)
        file.seek(0, os.SEEK_END)
        while True:
            file.write(bytes(1 << 12))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def read_only(parties: Deployment, name: str) -> Iterator[None]:
    """Let nothing be opened for writing on a party's disk; what is open stays so."""
    place = str(parties.state(name))
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextmanager
def clock(parties: Deployment, name: str, offset: str) -> Iterator[None]:
    """Put a party's clock forward or back; afterwards it jumps to the true time again."""
    parties.set_clock(name, offset)
    try:
        yield
    finally:
        parties.set_clock(name, "+0")


@contextmanager
def descriptors(parties: Deployment, name: str) -> Iterator[None]:
    """Let a party's process open nothing more, neither a file nor a connection."""
    process = parties.parties[name].process.pid
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    held = max(int(number) for number in os.listdir(f"/proc/{process}/fd")) + 1
    resource.prlimit(process, resource.RLIMIT_NOFILE, (held, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, before)


KINDS: dict[str, Fault] = {
    "full": full,
    "read-only": read_only,
    "descriptors": descriptors,
    **{f"clock {offset}": partial(clock, offset=offset) for offset in ("+1d", "-1d", "+1h", "-1h")},
}
