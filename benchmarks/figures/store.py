"""Raw results as JSON lines: appended and fsynced one by one, so that a killed run goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.figures.base import Measured
from common.core.errors import BadData, BadInput


@dataclass(frozen=True)
class Row:
    """One repetition of one point: what it measured, and the wall-clock seconds that it took."""

    point: str
    repetition: int
    seed: int
    seconds: float
    measured: Measured


class ResultFile:
    """The results of one figure.

    Parameters
    ----------
    path
        Created with the first row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[Row]:
        """Return all rows, in the order in which they were appended; an unfinished last line is none.

        Raises
        ------
        BadData
            If another line than the last cannot be read.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        # What follows the last line break was cut off while it was written; without it there is nothing there.
        found = []
        for number, line in enumerate(lines[:-1], start=1):
            try:
                found.append(Row(**json.loads(line)))
            except (ValueError, TypeError):
                raise BadData(
                    f"line {number} of {self.path} is no result: remove the line, and its repetition is measured again"
                ) from None
        return found

    @contextmanager
    def writing(self) -> Iterator[Callable[[Row], None]]:
        """Open the file for one writer: give a function that appends a row, which is on disk when it returns.

        Raises
        ------
        BadInput
            If another process writes to it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadInput(
                    f"another process writes to {self.path}: wait for it, or draw with --draw-only"
                ) from None
            # An unfinished last line: its repetition is measured again.
            os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)

            def append(row: Row) -> None:
                file.write(json.dumps(asdict(row), allow_nan=False, separators=(",", ":")).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

            yield append
