"""Append-only logs: the format of entries, the definition of their hashes, and the verification of a whole chain.

A run's transcript and every ledger on disk are such logs. Entry k has a *link*, the SHA-256 of the canonical JSON of
[k, kind, body], and its hash is the SHA-256 of [hash of entry k-1, link]. A head (the number of entries and the hash of
the last) identifies all entries, and links alone prove that a chain extends an older one.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, ClassVar

from pydantic import Field

from common.core import canonical
from common.core.errors import Forged
from common.core.values import DIGEST, Value
from common.crypto.identity import Identity, Signed

START = "0" * 64  # the previous hash of the first entry of a chain


class Entry(Value):
    """One entry of a log: its number from 0, the hash of the previous entry, its kind, its content, and its hash."""

    index: int = Field(ge=0)
    previous: str = Field(pattern=DIGEST)
    kind: str
    body: dict[str, Any]
    hash: str = Field(pattern=DIGEST)

    @cached_property
    def payload(self) -> bytes:
        """The content in canonical JSON, encoded once."""
        return canonical.encode(self.body)

    def line(self) -> str:
        """Return the entry in canonical JSON."""
        form = b'{"body":%s,"hash":"%s","index":%d,"kind":%s,"previous":"%s"}'
        kind, before = canonical.encode(self.kind), self.previous.encode()
        return (form % (self.payload, self.hash.encode(), self.index, kind, before)).decode("utf-8")


class Verifier:
    """The verifier of all chains: it follows a log from its beginning, entry by entry."""

    def __init__(self) -> None:
        self.entries, self.hash = 0, START

    def follow(self, entry: Entry) -> str:
        """Verify the next entry and return its link; Forged, without a change of state, if it is not the next one."""
        if (entry.index, entry.previous) != (self.entries, self.hash):
            raise Forged("does not follow the one before it: the chain is broken")
        content = link_of(entry.index, entry.kind, entry.payload)
        if entry.hash != linked(self.hash, content):
            raise Forged(f"({entry.kind}) was changed: its hash does not match its content")
        self.entries, self.hash = self.entries + 1, entry.hash
        return content


class Head(Value):
    """The head of a chain: the number of entries and the hash of the last; ``chain`` is the hash of the first."""

    KIND: ClassVar[str] = "chain-head"
    chain: str = Field(pattern=DIGEST)
    entries: int = Field(ge=1)
    hash: str = Field(pattern=DIGEST)


class Extension(Value):
    """A head, and the links of the entries after the first ``since``, which lead to it."""

    KIND: ClassVar[str] = "chain-extension"
    head: Head
    since: int = Field(ge=0)
    links: tuple[str, ...] = Field(max_length=1 << 20)

    def extends(self, old: Head | None) -> bool:
        """Return whether the links lead from an older head (None: from nothing) to this one.

        They start after the older head, or at the beginning of the chain; then they must pass through the older head.
        """
        if old is not None and old.chain != self.head.chain:
            return False
        if self.since == 0:
            chain_hash, first, includes_old = START, None, old is None
        elif old is not None and old.entries == self.since:
            chain_hash, first, includes_old = old.hash, self.head.chain, True
        else:
            return False
        for index, each in enumerate(self.links, start=self.since + 1):
            chain_hash = linked(chain_hash, each)
            first = first or chain_hash
            includes_old = includes_old or (old is not None and (old.entries, old.hash) == (index, chain_hash))
        end = (first, self.since + len(self.links), chain_hash)
        return includes_old and end == (self.head.chain, self.head.entries, self.head.hash)


def link_of(index: int, kind: str, payload: bytes) -> str:
    """Return the link of an entry, given its content in canonical JSON."""
    return hashlib.sha256(b"[%d,%s,%s]" % (index, canonical.encode(kind), payload)).hexdigest()


def linked(previous: str, content: str) -> str:
    """Return the hash of the entry with link ``content`` that follows the entry with the hash ``previous``."""
    return canonical.digest([previous, content])


def following(last: Entry | None, kind: str, body: dict[str, Any]) -> tuple[Entry, str]:
    """Return the entry that follows ``last`` (None: the first entry), and its link."""
    index, previous = (0, START) if last is None else (last.index + 1, last.hash)
    payload = canonical.encode(body)
    content = link_of(index, kind, payload)
    entry = Entry(index=index, previous=previous, kind=kind, body=body, hash=linked(previous, content))
    entry.payload = payload
    return entry, content


def signed_head(signer: Identity, head: Head) -> Signed:
    """Return a head, signed by the owner of the chain."""
    return signer.sign(head.KIND, head.wire())
