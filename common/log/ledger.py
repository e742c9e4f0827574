"""A ledger on disk whose rollback is detected: a hash chain whose signed head is also stored elsewhere.

The entries are lines of one file and never change. The head is in a file beside it, and at every witness. A ledger that
is missing, or shorter than its head or different from it, is refused before anything is charged or released.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core.database import storing
from common.core.durable import append_line, sync_folder, write_durably
from common.core.errors import MAKE_ROOM, BadInput, BadMessage, BrokenLedger, Forged, TandemError
from common.core.folder import read_own
from common.core.version import older
from common.crypto.identity import Identity, Signed, verify
from common.log.entries import Entry, Extension, Head, Verifier, following, signed_head
from common.log.witness import Witness, behind, last_head


class Chain:
    """The entries of a ledger in memory and on disk, one line each; they are on disk when a method returns.

    A partial line at the end, which a crash has left of an append, is not an entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self._links: list[str] = []
        lines = stored_lines(path)
        self._size = sum(map(len, lines))
        for entry, content in verified(lines, path):
            self._enter(entry, content)

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, kind: str, body: dict[str, Any]) -> Head:
        entry, content = following(self.entries[-1] if self.entries else None, kind, body)
        line = entry.line().encode()
        with _opened(self.path, self._size) as descriptor:
            append_line(descriptor, self._size, line)
        if not self._size:
            sync_folder(self.path.parent)
        self._size += len(line) + 1
        self._enter(entry, content)
        return self.head()

    def check_writable(self) -> None:
        """Raise OSError if the file cannot be opened for writing at present, or was cut off."""
        with _opened(self.path, self._size):
            pass

    def synchronize(self) -> None:
        """Synchronize the file: the process that wrote the last entry may have been killed before it did so."""
        with _opened(self.path, self._size) as descriptor:
            os.fsync(descriptor)

    def head(self, entries: int | None = None) -> Head:
        count = len(self.entries) if entries is None else entries
        return Head(chain=self.entries[0].hash, entries=count, hash=self.entries[count - 1].hash)

    def holds(self, head: Head) -> bool:
        return head.entries <= len(self.entries) and self.head(head.entries) == head

    def extension(self, since: int, entries: int | None = None) -> Extension:
        """Return the head after ``entries`` entries (None: all), with the links after the first ``since`` entries."""
        head = self.head(entries)
        return Extension(head=head, since=since, links=tuple(self._links[since : head.entries]))

    def numbered(self) -> Iterator[tuple[int, Entry]]:
        return enumerate(self.entries, start=1)

    def _enter(self, entry: Entry, content: str) -> None:
        self._links.append(content)
        self.entries.append(entry)


@contextmanager
def _opened(path: Path, size: int) -> Iterator[int]:
    """Open a file for writing that has ``size`` bytes or more: a new one if that is 0. OSError if it has fewer."""
    descriptor = os.open(path, os.O_WRONLY | (0 if size else os.O_CREAT), 0o600)
    try:
        if os.fstat(descriptor).st_size < size:
            raise OSError(errno.EIO, "the file was cut off", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


def stored_lines(path: Path) -> list[bytes]:
    """Return the complete lines of a ledger's file; none if there is no such file.

    BrokenLedger if it cannot be read, or there is a ledger of a release up to 0.3.0.
    """
    try:
        raw = read_own(path)
    except (FileNotFoundError, NotADirectoryError):
        if not (before := path.with_name(_OLDER)).exists():
            return []
        raise BrokenLedger(
            f"{older(f'the ledger {before}')} Its whole budget counts as spent: finish its run with that version, or "
            f"begin with new people or a new budget in a fresh directory"
        ) from None
    except OSError as error:
        raise BrokenLedger(f"{path} cannot be read ({error.strerror}). {REMEDY}") from None
    return raw[: raw.rfind(b"\n") + 1].splitlines(keepends=True)


def verified(lines: Iterable[bytes], file: Path) -> Iterator[tuple[Entry, str]]:
    """Yield the entries of a ledger's file, each with its link.

    BrokenLedger names the first entry that does not follow the one before it.
    """
    verifier = Verifier()
    for number, line in enumerate(lines):
        try:
            entry = Entry.parse(canonical.decode(line))
            content = verifier.follow(entry)
        except (BadMessage, Forged):
            raise BrokenLedger(
                f"entry {number} of {file} does not follow the entry before it: the ledger was edited. {REMEDY}"
            ) from None
        yield entry, content


REMEDY = (
    "What was released counts as spent. Put the newest copy back (a curator's: curator restore COPY), or begin with "
    "new people or a new budget in a fresh directory"
)
"""What to do about a ledger that cannot be trusted."""
LEDGER, HEADS, KEY = "ledger.jsonl", "heads.jsonl", "identity.key"
MAX_HEADS = 1 << 20  # bytes of heads in a file; then it begins anew with the newest one
_OLDER = "ledger.sqlite"  # the ledger's file in releases up to 0.3.0
GENESIS, WITNESS, CLOSED, SAMPLE = "genesis", "witness", "closed", "sample"
"""Kinds of the entries that every ledger has or may have."""
_storing = partial(storing, "the ledger", "nothing was released")


class Journal:
    """The ledger in a folder, with its key and its head.

    Args:
        folder: Locked by this process; a new ledger is made if the folder has none of its files.
        facts: The contents of a new ledger's first entry.
        witnesses: Services that store the heads, too. They are entries of the ledger: later starts must name them.
        reach: Opens a witness of the ledger that is not named, by its place; None: each must be named.

    Attributes:
        closed: Why nothing is charged any more; None while the ledger is open.

    Raises:
        BrokenLedger: If the ledger is missing, cut off, edited, or not the one that its head or a witness has seen.
        BadInput: If a new ledger cannot be written, as on a full disk; CannotWrite for an existing ledger.
    """

    def __init__(
        self,
        folder: Path,
        facts: dict[str, Any],
        witnesses: Sequence[Witness] = (),
        reach: Callable[[str], Witness] | None = None,
    ) -> None:
        self._heads, self._stored = folder / HEADS, 0
        self._published: Head | None = None
        self._witnesses, self._reach = tuple(witnesses), reach
        self._last_heads: dict[str, Head | None] = {}
        self.chain = Chain(folder / LEDGER)
        self.closed = next((str(entry.body["why"]) for entry in self.chain.entries if entry.kind == CLOSED), None)
        self._open(folder, facts)

    def append(self, kind: str, body: dict[str, Any]) -> Head:
        """Append an entry durably; call :meth:`publish` before anything depends on it."""
        with _storing():
            head = self.chain.append(kind, body)
        if kind == CLOSED and self.closed is None:
            self.closed = str(body["why"])
        return head

    def publish(self) -> None:
        """Store the head beside the ledger and at the witnesses; call this before anything is released.

        CannotWrite if a disk cannot be written: then call it again. RolledBack or PeerUnavailable if a witness has
        seen another ledger, or does not answer.
        """
        head = self.chain.head()
        if head == self._published:
            return
        with _storing():
            self._store(canonical.encode(signed_head(self.identity, head).wire()))
            if self.closed is None:
                for witness in self._witnesses:
                    self._publish_to(witness, head)
        self._published = head

    def _store(self, head: bytes) -> None:
        """Store a head durably: without witnesses only it shows that a ledger is an older copy.

        It is the last line of its file, which takes one synchronization where a new file takes two.
        """
        if 0 < self._stored < MAX_HEADS and self._heads.exists() and self._heads.stat().st_size == self._stored:
            with _opened(self._heads, self._stored) as descriptor:
                append_line(descriptor, self._stored, head)
            self._stored += len(head) + 1
        else:
            write_durably(self._heads, head + b"\n", mode=0o600)
            self._stored = len(head) + 1

    def lacking(self) -> str | None:
        """Return why the ledger cannot be written, in words that may be public; None if it can."""
        if not (self._heads.exists() and self.chain.path.exists()):
            return "is gone"
        try:
            self.chain.check_writable()
        except OSError:
            return "cannot be written"
        return None

    def witnesses_lacking(self) -> str | None:
        """Return, in words, how many witnesses cannot be written at present; None if all can, or it is closed."""
        count = 0
        for witness in () if self.closed is not None else self._witnesses:
            try:
                witness.check_writable()
            except (OSError, TandemError):
                count += 1
        return f"{count} of {len(self._witnesses)} cannot be written" if count else None

    def add_witness(self, witness: Witness, *, opened: bool) -> None:
        """Publish heads to a further witness from now on, which later starts need not name."""
        if self.closed is not None:
            return
        head = self._last_heads[witness.place] = last_head(witness)
        if head is None and opened:
            raise BrokenLedger(f"the witness {witness.place} has forgotten this ledger. {REMEDY}")
        self._check(f"the witness {witness.place}", head)
        self._witnesses, self._published = (*self._witnesses, witness), None
        self.publish()

    def _open(self, folder: Path, facts: dict[str, Any]) -> None:
        if not len(self.chain):
            # The ledger is created before the key, so if there is a key, there was a ledger.
            if (folder / KEY).exists() or self._heads.exists():
                raise BrokenLedger(f"the ledger {self.chain.path} is gone, or empty. {REMEDY}")
            try:
                self.chain.append(GENESIS, {**facts, "number": secrets.token_hex(16)})
            except OSError as error:  # a full disk: the lock shows that the folder can be written
                reason = f"cannot be begun ({error.strerror}){MAKE_ROOM}"
                raise BadInput(f"the ledger {self.chain.path} {reason}") from None
        with _storing():
            self.chain.synchronize()
            self.identity = Identity.load_or_create(folder / KEY)
        if self._heads.exists():
            self._check(f"the file {self._heads}", read_head(self._heads, self.identity.public))
        elif len(self.chain) > 1:
            raise BrokenLedger(f"the ledger's head {self._heads} is gone. {REMEDY}")
        if self.closed is None:
            self._check_witnesses()
        self.publish()

    def _check_witnesses(self) -> None:
        used = [str(e.body["place"]) for e in self.chain.entries if e.kind == WITNESS]
        if self._reach is not None:
            named = {witness.place for witness in self._witnesses}
            self._witnesses += tuple(self._reach(place) for place in used if place not in named)
        by_place = {witness.place: witness for witness in self._witnesses}
        for place in used:
            if place not in by_place:
                raise BrokenLedger(f"this ledger has the witness {place}: give it with --witness")
        for place, witness in by_place.items():
            head = self._last_heads[place] = last_head(witness)
            if head is None and place in used and len(self.chain) > 2:
                raise BrokenLedger(f"the witness {place} has forgotten this ledger. {REMEDY}")
            self._check(f"the witness {place}", head)
        for place in [place for place in by_place if place not in used]:
            # It must accept a head before the ledger depends on it: else a wrong place would make the ledger unusable.
            with _storing():
                self._publish_to(by_place[place], self.chain.head())
            self.append(WITNESS, {"place": place})

    def _check(self, holder: str, head: Head | None) -> None:
        if head is not None and not self.chain.holds(head):
            raise BrokenLedger(f"{behind(holder, head, self.chain.head())}. {REMEDY}")

    def _publish_to(self, witness: Witness, head: Head) -> None:
        last = self._last_heads.get(witness.place)
        if last == head:
            return
        extension = self.chain.extension(last.entries if last else 0, head.entries)
        witness.keep(self.identity.sign(extension.KIND, extension.wire()))
        self._last_heads[witness.place] = head


def read_head(path: Path, key: str) -> Head:
    """Read the newest signed head of a file; BrokenLedger if it is not signed by ``key``, or cannot be parsed."""
    try:
        newest = read_own(path).rpartition(b"\n")[0].rpartition(b"\n")[2]  # after it, at most a part of a line
        return Head.parse(verify(Signed.parse(json.loads(newest)), Head.KIND, key))
    except (ValueError, BadMessage, Forged):
        raise BrokenLedger(
            f"{path} holds no head of this ledger: it was cut off, edited, or is another's. {REMEDY}"
        ) from None
