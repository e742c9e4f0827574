"""Raw results as JSON lines: appended and fsynced one by one, so that a killed run goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.figures.base import Measured, Procedure
from common.core.errors import BadData, BadInput
from common.core.machine import processors
from common.core.version import release


@dataclass(frozen=True)
class Row:
    """One repetition of one point by a procedure: what it measured, and the wall-clock seconds that it took."""

    point: str
    repetition: int
    seed: int
    seconds: float
    measured: Measured
    procedure: Procedure = "tandem"


ORIGIN = "origin"
"""The key of what :func:`origin` says in each row; rows that are older than it have none."""


@cache
def origin() -> dict[str, str]:
    """Return what measures here: Tandem's version, the commit (with "changed" if files differ from it), the machine."""
    model = next((line.partition(":")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    changed = _git("status", "--porcelain", "--", ":(top)*.py")
    return {
        "version": release() or "not installed",
        "commit": _git("rev-parse", "HEAD") + (", changed" if changed else ""),
        "machine": f"{processors()} cores, {model.strip() or platform.processor() or platform.machine()}",
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run([git, *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


class JsonLines:
    """A file of JSON objects, one a line; each that is appended gets :data:`ORIGIN`.

    Args:
        path: Created with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def values(self) -> list[dict[str, Any]]:
        """Return all objects, in the order in which they were appended; an unfinished last line is none.

        Raises:
            BadData: If another line than the last cannot be read.
        """
        if not self.path.exists():
            return []
        # What follows the last line break was cut off while it was written; without it there is nothing there.
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [self._parsed(number, line) for number, line in enumerate(lines, start=1)]

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self.flaw(number)
        return value

    def flaw(self, number: int) -> BadData:
        """Return the problem of a line that is no result; lines are counted from 1."""
        return BadData(
            f"line {number} of {self.path} is no result: remove the line, and its repetition is measured again"
        )

    @contextmanager
    def appending(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Open the file for one writer: give a function that appends an object, which is on disk when it returns.

        Raises:
            BadInput: If another process writes to it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadInput(f"another process writes to {self.path}: wait for it, or draw what is there") from None
            # An unfinished last line: its repetition is measured again.
            os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)

            def append(value: dict[str, Any]) -> None:
                row = {**value, ORIGIN: origin()}
                file.write(json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

            yield append


class ResultFile:
    """The results of one figure.

    Args:
        path: Created with the first row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonLines(path)

    def rows(self) -> list[Row]:
        """Return all rows, in the order in which they were appended; an unfinished last line is none.

        Raises:
            BadData: If another line than the last cannot be read.
        """
        found = []
        for number, value in enumerate(self._lines.values(), start=1):
            try:
                found.append(Row(**{key: item for key, item in value.items() if key != ORIGIN}))
            except TypeError:
                raise self._lines.flaw(number) from None
        return found

    @contextmanager
    def writing(self) -> Iterator[Callable[[Row], None]]:
        """Open the file for one writer: give a function that appends a row, which is on disk when it returns.

        Raises:
            BadInput: If another process writes to it.
        """
        with self._lines.appending() as append:
            yield lambda row: append(asdict(row))
