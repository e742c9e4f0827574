"""A readable log, for the person alone, of all that their agent was asked, what it answered and what was refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.core.durable import sync_folder
from common.core.errors import BadData, ConsentWithheld, PeerError, TandemError
from common.core.plain import plain

NAME = "log.jsonl"
"""The file in the agent's state directory."""


class Journal:
    """An append-only file of JSON lines: a time in UTC, what happened, and facts about it.

    A line is on disk when :meth:`write` returns. Nobody but its owner may read the file. It never holds the record or
    the value that was computed from it; of an answer it holds what left the device.

    Parameters
    ----------
    folder
        The agent's state directory, which exists.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._last: tuple[str, str] | None = None

    def write(self, event: str, **facts: Any) -> None:
        """Append one line.

        Raises
        ------
        OSError
            If it cannot be stored; who asks for consent then goes no further.
        """
        entry = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, **facts}
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            size = os.fstat(descriptor).st_size
            # What a crash cut off stays a line of its own.
            cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * cut + json.dumps(entry).encode() + b"\n")
            os.fsync(descriptor)
            if size == 0:
                sync_folder(self._path.parent)
        finally:
            os.close(descriptor)

    def refused(self, error: TandemError) -> None:
        """Note why a question was not answered; a referee that sends the same again and again fills no disk."""
        if not isinstance(error, PeerError | ConsentWithheld) and self._last != (error.problem, error.detail):
            self.write("refused", reason=error.problem, detail=error.detail)
            self._last = error.problem, error.detail


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Return what is in the log of a state directory, oldest first; a line that a crash cut off is left out.

    Raises
    ------
    BadData
        If there is no log.
    """
    try:
        lines = (folder / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        raise BadData(
            f"there is no log in {folder}: no agent has run with this state directory; name another with --state"
        ) from None
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def in_words(entry: Mapping[str, Any]) -> str:
    """Return an entry as one line: the time, what happened, and the facts by name."""
    facts = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in entry.items() if name not in _FIRST)
    return plain(f"{entry.get('time', 'no time')}  {entry.get('event', 'unknown')!s:<13} {facts}".rstrip())


_FIRST = ("time", "event")
