"""The transcript: a hash-chained, signed log of every message of a run, verifiable by anyone, offline.

Entry k is one line of canonical JSON::

    {"body": {...}, "hash": ..., "index": k, "kind": ..., "previous": hash of entry k-1, "signature": ...}

:mod:`common.log.entries` defines the hash, which the referee signs. Changing, dropping, adding or reordering entries
breaks the chain at a known entry. Ed25519 is deterministic: the same run history always gives the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import Field

from common.core import canonical
from common.core.errors import AuditFailed, BadMessage, Forged
from common.core.version import PROTOCOL, release_of, skew
from common.crypto.identity import Identity, verify_bytes
from common.log.entries import Entry, Verifier, following, link_of, linked

MOST_ENTRIES = 1 << 17
"""Most entries of a transcript that are read: each is verified, which takes a fifth of a millisecond."""
_KIND = "transcript-entry"


class SignedEntry(Entry):
    """One entry of a transcript, whose hash the referee has signed."""

    signature: str = Field(pattern=r"^[0-9a-f]{128}$")

    def line(self) -> str:
        return f'{super().line()[:-1]},"signature":"{self.signature}"}}'


class StoredEntry:
    """An entry as the bytes of its line, without the newline: a transcript takes as much memory as its file."""

    __slots__ = ("_line", "hash", "index", "kind")

    def __init__(self, entry: SignedEntry, line: bytes) -> None:
        self.index, self.kind, self.hash = entry.index, sys.intern(entry.kind), entry.hash
        self._line = line

    @property
    def body(self) -> dict[str, Any]:
        return dict(canonical.decode(self._line)["body"])


AnyEntry = SignedEntry | StoredEntry


class EntryHash(NamedTuple):
    """Kind and hash of an entry, which are sufficient for a checkpoint."""

    kind: str
    hash: str


def append(last: SignedEntry | None, kind: str, body: dict[str, Any], signer: Identity) -> SignedEntry:
    """Return the entry that follows ``last``."""
    entry, _ = following(last, kind, body)
    signature = signer.sign_bytes(_KIND, bytes.fromhex(entry.hash))
    signed_entry = SignedEntry(
        index=entry.index, previous=entry.previous, kind=kind, body=entry.body, hash=entry.hash, signature=signature
    )
    signed_entry.payload = entry.payload
    return signed_entry


def check_entry(entry: SignedEntry, key: str) -> None:
    """Verify that an entry matches its hash, and that ``key`` has signed the hash; else Forged."""
    if entry.hash != linked(entry.previous, link_of(entry.index, entry.kind, entry.payload)):
        raise Forged(f"entry {entry.index} of the transcript is not what its hash says")
    verify_bytes(key, _KIND, bytes.fromhex(entry.hash), entry.signature)


def read(lines: Iterable[bytes], key: str | None = None) -> list[StoredEntry]:
    """Parse and verify a whole transcript, given as lines with their newlines.

    The referee's public key is by default the one that entry 0 states. AuditFailed names the first line that does not
    verify, and the reason.
    """
    entries: list[StoredEntry] = []
    verifier = Verifier()
    for number, raw in enumerate(lines, start=1):
        place, line = f"transcript line {number}", raw.removesuffix(b"\n")
        if number > MOST_ENTRIES:
            raise AuditFailed(f"the transcript has more than {MOST_ENTRIES:,} entries: no run has as many")
        if line == raw:
            raise AuditFailed(f"{place} has no end: the transcript was cut", line=number)
        try:
            entry = SignedEntry.parse(canonical.decode(line))
            if number == 1:
                _check_protocol(entry.body)
            verifier.follow(entry)
        except BadMessage as error:
            raise AuditFailed(f"{place} cannot be read: {error.detail}", line=number) from None
        except Forged as error:
            raise AuditFailed(f"{place} {error.detail}", line=number) from None
        if line != entry.line().encode("utf-8"):
            raise AuditFailed(f"{place} is not in canonical form: it was changed", line=number)
        key = key or str(entry.body.get("referee", ""))
        try:
            verify_bytes(key, _KIND, bytes.fromhex(entry.hash), entry.signature)
        except Forged as error:
            raise AuditFailed(f"{place}: {error.detail}", line=number) from None
        entries.append(StoredEntry(entry, line))
    if not entries:
        raise AuditFailed("the transcript is empty: a run that ended while it waited to begin has nothing to verify")
    return entries


def _check_protocol(body: dict[str, Any]) -> None:
    configuration = body.get("configuration")
    version = configuration.get("version") if isinstance(configuration, dict) else None
    if isinstance(version, int) and version != PROTOCOL:
        raise AuditFailed(skew("the run's configuration", version, release_of(version)).detail, line=1)
