"""A witness keeps the heads of a ledger away from it: append-only, and nothing but an extension of the last is taken.

Whoever puts an older copy of a ledger back, cuts it, or goes on with two copies, cannot make the witness forget.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from common.core import canonical
from common.core.errors import BadMessage, BrokenLedger, Forged, RolledBack
from common.crypto.identity import Signed, verify
from common.log.entries import Extension, Head


class Witness(Protocol):
    """Where heads are kept: a file on another disk, or a service."""

    @property
    def place(self) -> str:
        """Where it is, in words that find it again."""
        ...

    def last(self) -> Head | None:
        """Return the newest head that was put here, None if there is none."""
        ...

    def put(self, signed: Signed) -> None:
        """Keep the head of a signed :class:`~common.log.entries.Extension`; the same again changes nothing.

        Raises:
            RolledBack: If it does not extend the last one.
            Forged: If another key signed the ones before.
        """
        ...

    def check_writable(self) -> None:
        """See whether a head could be put here now; nothing is changed.

        Raises:
            OSError, TandemError: If not.
        """
        ...


class FileWitness:
    """A witness that is a file: one signed extension a line, each synchronised before the next is taken.

    Args:
        path: The file; it is made at the first head, in a folder that exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    @property
    def place(self) -> str:
        """The file's absolute path."""
        return str(self._path)

    def newest(self) -> Signed | None:
        """Return the newest head, as it was signed.

        Raises:
            BrokenLedger: If the file is no list of heads.
        """
        return self._newest(self._path.read_bytes()) if self._path.exists() else None

    def last(self) -> Head | None:
        """Return the newest head."""
        found = self.newest()
        return None if found is None else Extension.parse(found.message).head

    def put(self, signed: Signed) -> None:
        """Keep a head; see :class:`Witness`."""
        wanted = Extension.parse(verify(signed, Extension.KIND))
        with self._held() as file:
            content = file.read()
            found = self._newest(content)
            if found is not None and found.key != signed.key:
                raise Forged(f"the heads in {self.place} were signed by {found.key[:16]}..., not {signed.key[:16]}...")
            known = None if found is None else Extension.parse(found.message).head
            if known == wanted.head:
                return
            if not wanted.extends(known):
                why = behind(f"the witness {self.place}", known, wanted.head)
                raise RolledBack(f"{why}. Go on with the newest copy of the ledger")
            file.truncate(content.rfind(b"\n") + 1)  # a line without an end was cut off: it was never acknowledged
            file.seek(0, os.SEEK_END)
            file.write(canonical.encode(signed.wire()) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def check_writable(self) -> None:
        """See whether the file, or its folder while there is none, takes something; see :class:`Witness`."""
        if self._path.exists():
            os.close(os.open(self._path, os.O_RDWR))
        elif not os.access(self._path.parent, os.W_OK | os.X_OK):
            raise PermissionError(f"{self._path.parent} cannot be written")

    @contextmanager
    def _held(self) -> Iterator[IO[bytes]]:
        """Open the file for this process alone; its folder knows of it before anything is in it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            yield file

    def _newest(self, content: bytes) -> Signed | None:
        lines = content.split(b"\n")[:-1]
        if not lines:
            return None
        try:
            signed = Signed.parse(canonical.decode(lines[-1]))
            verify(signed, Extension.KIND)
        except (BadMessage, Forged):
            raise BrokenLedger(f"the witness {self.place} is not a list of heads: it was edited") from None
        return signed


def behind(who: str, known: Head | None, found: Head) -> str:
    """Say that a ledger is not what somebody has seen of it."""
    if known is None:
        return f"{who} was shown a ledger that does not begin at its beginning"
    if known.chain != found.chain:
        what = "another ledger"
    elif known.entries > found.entries:
        what = f"only {found.entries} entries: it was put back or cut off"
    else:
        what = "another entry there: it was edited, or went on in two copies"
    return f"{who} has seen {known.entries} entries of this ledger, and here is {what}"
