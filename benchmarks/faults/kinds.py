"""What goes wrong, by name: each is there while its context lasts, and gone afterwards."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from benchmarks.faults.machines import Machines

Fault = Callable[[Machines, str], AbstractContextManager[None]]


@contextmanager
def full(machines: Machines, name: str) -> Iterator[None]:
    """Fill a party's disk to the last byte."""
    ballast = machines.state(name) / "ballast"
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
def read_only(machines: Machines, name: str) -> Iterator[None]:
    """Let nothing be opened for writing on a party's disk; what is open stays so."""
    place = str(machines.state(name))
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextmanager
def clock(machines: Machines, name: str, offset: str) -> Iterator[None]:
    """Put a party's clock forward or back; afterwards it jumps to the true time again."""
    machines.set_clock(name, offset)
    try:
        yield
    finally:
        machines.set_clock(name, "+0")


@contextmanager
def descriptors(machines: Machines, name: str) -> Iterator[None]:
    """Let a party's process open nothing more, neither a file nor a connection."""
    process = machines.parties[name].process.pid
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    held = max(int(number) for number in os.listdir(f"/proc/{process}/fd")) + 1
    resource.prlimit(process, resource.RLIMIT_NOFILE, (held, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, before)


@contextmanager
def killed(machines: Machines, name: str) -> Iterator[None]:
    """Kill a party's process without a word, at some moment of the first second and a half; it is started again."""
    # When a command that is started now connects, nobody knows to less than that.
    timer = threading.Timer(random.uniform(0.0, 1.5), machines.parties[name].process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.join()


KINDS: dict[str, Fault] = {
    "full": full,
    "read-only": read_only,
    "descriptors": descriptors,
    **{f"clock {offset}": partial(clock, offset=offset) for offset in ("+1d", "-1d", "+1h", "-1h")},
    "killed": killed,
}
LASTING = tuple(kind for kind in KINDS if kind != "killed")
"""Those that are there for a time. Kills of a run's own parties are those of :mod:`benchmarks.kills`."""
