"""Whether a service can do its work now: its checks, made at most once a second however often somebody asks.

A service that is alive answers (``/v1/health``); it is ready if it also has what it needs (``/v1/ready``). What
is said is public: the names of checks and fixed words, no path, no key, nothing of anybody's data.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from common.core.errors import NotReady

Check = Callable[[], str | None]
"""Returns what is wrong, in public words; None if nothing is. What it raises counts as wrong, and is not told."""

FRESH = 1.0
"""Seconds for which an answer holds."""
PATIENCE = 3.0
"""Seconds after which checks that have not ended count as failed for whoever else asks."""
MIN_FREE = 64 << 20
"""Bytes that a state directory's disk must have left."""
PROBE = 64 << 10
"""Bytes that are written to see that a directory takes something."""


class Readiness:
    """The checks of one service.

    Args:
        checks: By name, in the order in which they are told.
        clock: Seconds since some moment.
    """

    def __init__(self, checks: Mapping[str, Check], clock: Callable[[], float] = time.monotonic) -> None:
        self._checks = dict(checks)
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, str] = {}
        self._ended = self._began = -float("inf")

    def known(self) -> dict[str, str] | None:
        """Return what is wrong by check if that is known well enough; None: somebody has to look (:meth:`look`)."""
        now = self._clock()
        if now - self._ended < FRESH:
            return self._found
        if not self._lock.locked():
            return None
        if now - self._began > PATIENCE:
            return {"checks": f"have not ended for {PATIENCE:g} seconds"}
        return self._found if self._ended > -float("inf") else None

    def look(self) -> dict[str, str]:
        """Make all checks, unless somebody just did; return what is wrong by check."""
        with self._lock:
            if self._clock() - self._ended >= FRESH:
                self._began = self._clock()
                wrong = {name: _made(check) for name, check in self._checks.items()}
                self._found = {name: why for name, why in wrong.items() if why is not None}
                self._ended = self._clock()
            return self._found


def require(wrong: Mapping[str, str]) -> None:
    """Raise what is wrong, if anything is.

    Raises:
        NotReady: Naming each check that failed.
    """
    if wrong:
        detail = "; ".join(f"{name}: {why}" for name, why in wrong.items())
        raise NotReady(f"{detail}; the service's log says more", not_ready=", ".join(wrong))


def _made(check: Check) -> str | None:
    try:
        return check()
    except Exception:  # noqa: BLE001 - whatever it is, the service is not ready, and the text may name paths or hosts
        return "cannot be used"


def disk(folder: Path) -> str | None:
    """Say why nothing can be stored in a state directory; None if it can.

    Writes :data:`PROBE` bytes into it and takes them away again: a disk that is read-only, full or over its quota says
    so only then.
    """
    probe = folder / ".ready"
    try:
        if free_bytes(folder) < MIN_FREE:
            return f"less than {MIN_FREE >> 20} MiB are free"
        with probe.open("wb", buffering=0) as file:
            if file.write(bytes(PROBE)) < PROBE:
                return "is full"
    except OSError:
        return "cannot be written"
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return None


def free_bytes(folder: Path) -> int:
    """Return how many bytes this process may still write to the disk of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
