"""The transcript: a hash-chained, signed log of every message of a run, verifiable by anyone, offline.

Entry k is one line of canonical JSON::

    {"body": {...}, "hash": ..., "index": k, "kind": ..., "previous": hash of entry k-1, "signature": ...}

:mod:`common.log.entries` has the rule of the hash, which the referee signs. Changing, dropping, adding or reordering
anything breaks the chain at a known entry. Ed25519 is deterministic: the same run history always gives the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import Field

from common.core import canonical
from common.core.errors import AuditFailed, BadMessage, Forged
from common.core.version import PROTOCOL, release_of, skew
from common.crypto.identity import Identity, verify_bytes
from common.log.entries import Entry, Verifier, following, link, linked

MOST_ENTRIES = 1 << 17
"""Entries of a transcript that are read from a file: each is verified, which takes a fifth of a millisecond."""
_KIND = "transcript-entry"


class SignedEntry(Entry):
    """One entry of a transcript, whose hash the referee has signed."""

    signature: str = Field(pattern=r"^[0-9a-f]{128}$")

    def line(self) -> str:
        """Return the entry as one canonical JSON line (without the newline)."""
        return canonical.encode(self.wire()).decode("utf-8")


class StoredEntry:
    """An entry in the bytes of its line: a long transcript takes the memory of its file, not many times as much.

    Args:
        entry: What the line holds.
        line: The line, without its newline.

    Attributes:
        index, kind, hash: Those of the entry.
    """

    __slots__ = ("_line", "hash", "index", "kind")

    def __init__(self, entry: SignedEntry, line: bytes) -> None:
        self.index, self.kind, self.hash = entry.index, sys.intern(entry.kind), entry.hash
        self._line = line

    @property
    def body(self) -> dict[str, Any]:
        """What the entry says, parsed anew."""
        return dict(canonical.decode(self._line)["body"])


AnyEntry = SignedEntry | StoredEntry


def append(last: SignedEntry | None, kind: str, body: dict[str, Any], signer: Identity) -> SignedEntry:
    """Return the entry that follows ``last``."""
    entry = following(last, kind, body)
    signature = signer.sign_bytes(_KIND, bytes.fromhex(entry.hash))
    return SignedEntry(**dict(entry), signature=signature)


def split(raw: bytes) -> list[str]:
    """Return the lines of a transcript's file, each ended by exactly one newline byte.

    Raises:
        AuditFailed: If the bytes are not such lines.
    """
    try:
        *lines, rest = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise AuditFailed(f"the transcript is not UTF-8 at byte {error.start}: it was changed") from None
    if rest:
        raise AuditFailed(f"transcript line {len(lines) + 1} has no end: the transcript was cut", line=len(lines) + 1)
    return lines


def check_entry(entry: SignedEntry, key: str) -> None:
    """Check that an entry says what its hash says, and that the hash is signed.

    Raises:
        Forged: If not.
    """
    if entry.hash != linked(entry.previous, link(entry.index, entry.kind, entry.body)):
        raise Forged(f"entry {entry.index} of the transcript is not what its hash says")
    verify_bytes(key, _KIND, bytes.fromhex(entry.hash), entry.signature)


def read(lines: Iterable[str], key: str | None = None) -> list[SignedEntry]:
    """Parse and verify a whole transcript.

    Args:
        lines: The lines of the file (:func:`split`).
        key: The referee's public key; by default the one named in entry 0's configuration.

    Raises:
        AuditFailed: Naming the first line that does not verify, and why.
    """
    entries = list(_verified((line.encode("utf-8") for line in lines), key))
    if not entries:
        raise AuditFailed("the transcript is empty")
    return entries


def read_stored(lines: Iterable[bytes], key: str | None = None) -> list[StoredEntry]:
    """Verify a transcript's file line by line, each with its newline; parameters and errors are those of :func:`read`.

    Of each entry its line is kept, and no more: what it says is parsed again when it is asked for.
    """
    kept: list[StoredEntry] = []

    def passed() -> Iterator[bytes]:
        for number, line in enumerate(lines, start=1):
            if number > MOST_ENTRIES:
                raise AuditFailed(f"the transcript has more than {MOST_ENTRIES:,} entries: no run has as many")
            if not line.endswith(b"\n"):
                raise AuditFailed(f"transcript line {number} has no end: the transcript was cut", line=number)
            yield line[:-1]

    for entry, line in _verified_lines(passed(), key):
        kept.append(StoredEntry(entry, line))
    if not kept:
        raise AuditFailed("the transcript is empty")
    return kept


def _verified(lines: Iterable[bytes], key: str | None) -> Iterator[SignedEntry]:
    return (entry for entry, _ in _verified_lines(lines, key))


def _verified_lines(lines: Iterable[bytes], key: str | None) -> Iterator[tuple[SignedEntry, bytes]]:
    verifier = Verifier()
    for number, line in enumerate(lines):
        where = f"transcript line {number + 1}"
        try:
            entry = SignedEntry.parse(canonical.decode(line))
            if number == 0:
                _check_protocol(entry.body)
            verifier.follow(entry)
        except BadMessage as error:
            raise AuditFailed(f"{where} cannot be read: {error.detail}", line=number + 1) from None
        except Forged as error:
            raise AuditFailed(f"{where} {error.detail}", line=number + 1) from None
        if line != entry.line().encode("utf-8"):
            raise AuditFailed(f"{where} is not in canonical form: it was changed", line=number + 1)
        key = key or str(entry.body.get("referee", ""))
        try:
            verify_bytes(key, _KIND, bytes.fromhex(entry.hash), entry.signature)
        except Forged as error:
            raise AuditFailed(f"{where}: {error.detail}", line=number + 1) from None
        yield entry, line


def _check_protocol(body: dict[str, Any]) -> None:
    configuration = body.get("configuration")
    found = configuration.get("version") if isinstance(configuration, dict) else None
    if isinstance(found, int) and found != PROTOCOL:
        raise AuditFailed(skew("the run's configuration", found, release_of(found)).detail, line=1)
