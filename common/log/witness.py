"""Witnesses, which store the signed heads of logs elsewhere: append-only, and they accept only extensions of the last.

So a witness detects that a log was replaced by an older copy, was cut, or is continued in two copies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from common.core import canonical
from common.core.durable import append_line, sync_folder
from common.core.errors import BadMessage, BrokenLedger, Forged, RolledBack
from common.crypto.identity import Signed, verify
from common.log.entries import Extension, Head
from common.log.receipts import StoredCheckpoint

_BLOCK = 1 << 16  # bytes read at a time from the end of a file


class Witness(Protocol):
    """A store of the signed heads of one ledger (:class:`~common.log.entries.Extension`), or of checkpoints of runs."""

    @property
    def place(self) -> str: ...

    def key(self) -> str:
        """Return the public key that verifies its signatures; empty if it signs nothing."""
        ...

    def keep(self, signed: Signed) -> Signed | None:
        """Store a signed extension or checkpoint, and return the witness's signed statement, if any; idempotent.

        RolledBack if it does not extend the last one; Forged if another key signed the previous ones.
        """
        ...

    def kept(self, signer: str = "", run: str = "") -> list[StoredCheckpoint]:
        """Return all stored checkpoints of a referee's run, oldest first; for a ledger, only the newest head."""
        ...

    def check_writable(self) -> None:
        """Raise OSError or TandemError if nothing can be stored at present."""
        ...


def last_head(witness: Witness) -> Head | None:
    """Return the newest head of the ledger that a witness has stored, None if there is none."""
    checkpoints = witness.kept()
    return Extension.parse(verify(checkpoints[-1].checkpoint, Extension.KIND)).head if checkpoints else None


class FileWitness:
    """A witness that is a file: one signed extension per line, each synchronised before the next is accepted."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.place = str(self._path)

    def key(self) -> str:
        return ""

    def kept(self, signer: str = "", run: str = "") -> list[StoredCheckpoint]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            newest = self._newest(last_line(file)[0])
        return [] if newest is None else [StoredCheckpoint(checkpoint=newest)]

    def keep(self, signed: Signed) -> None:
        extension = Extension.parse(verify(signed, Extension.KIND))
        with held_file(self._path) as file:
            line, end = last_line(file)
            newest = self._newest(line)
            if newest is not None and newest.key != signed.key:
                raise Forged(f"the heads in {self.place} were signed by {newest.key[:16]}..., not {signed.key[:16]}...")
            head = None if newest is None else Extension.parse(newest.message).head
            if head == extension.head:
                os.fsync(file.fileno())  # the process that wrote it may have failed to do so
                return
            if not extension.extends(head):
                reason = behind(f"the witness {self.place}", head, extension.head)
                raise RolledBack(f"{reason}. Go on with the newest copy of the ledger")
            append_line(file.fileno(), end, canonical.encode(signed.wire()))

    def check_writable(self) -> None:
        if self._path.exists():
            os.close(os.open(self._path, os.O_RDWR))
        elif not os.access(self._path.parent, os.W_OK | os.X_OK):
            raise PermissionError(f"{self._path.parent} cannot be written")

    def _newest(self, line: bytes | None) -> Signed | None:
        if line is None:
            return None
        try:
            signed = Signed.parse(canonical.decode(line))
            verify(signed, Extension.KIND)
        except (BadMessage, Forged):
            raise BrokenLedger(f"the witness {self.place} is not a list of heads: it was edited") from None
        return signed


@contextmanager
def held_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of lines with an exclusive lock; a new file's folder is synchronised before it is written."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sync_folder(path.parent)
        yield file


def last_line(file: IO[bytes]) -> tuple[bytes | None, int]:
    """Return the last complete line of a file, None if there is none, and its end; a partial line may follow."""
    start, read = file.seek(0, os.SEEK_END), b""
    while start > 0 and read.count(b"\n") < 2:
        end, start = start, max(0, start - _BLOCK)
        file.seek(start)
        read = file.read(end - start) + read
    lines, newline, _ = read.rpartition(b"\n")
    return (lines.rpartition(b"\n")[2] if newline else None), start + len(lines) + len(newline)


def behind(holder: str, expected: Head | None, actual: Head) -> str:
    """Return the message that a ledger is not the one that someone has seen."""
    if expected is None:
        return f"{holder} was shown a ledger that does not begin at its beginning"
    if expected.chain != actual.chain:
        what = "another ledger"
    elif expected.entries > actual.entries:
        what = f"only {actual.entries} entries: it was put back or cut off"
    else:
        what = "another entry there: it was edited, or went on in two copies"
    return f"{holder} has seen {expected.entries} entries of this ledger, and here is {what}"
