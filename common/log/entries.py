"""A hash chain of which a short head says all: whoever keeps an old head notices when the chain is not what it was.

Entry k has a *link*, the SHA-256 of its canonical content, and its hash is SHA-256 over the hash before it and that
link. So a chain is shown to extend an older head by the links in between alone, without any entry's content.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from common.core import canonical
from common.core.values import DIGEST, Value
from common.crypto.identity import Identity, Signed

START = "0" * 64
"""What the first entry of a chain follows."""


class Head(Value):
    """How far a chain goes: the number of its entries, and the hash of the last; ``chain`` is the hash of the first."""

    KIND: ClassVar[str] = "chain-head"
    chain: str = Field(pattern=DIGEST)
    entries: int = Field(ge=1)
    hash: str = Field(pattern=DIGEST)


class Extension(Value):
    """A head, and the links of the entries behind the first ``since`` that lead to it."""

    KIND: ClassVar[str] = "chain-extension"
    head: Head
    since: int = Field(ge=0)
    links: tuple[str, ...] = Field(max_length=1 << 20)

    def extends(self, old: Head | None) -> bool:
        """Tell whether the links lead from an older head (None: from nothing) to this one.

        They begin behind the older head, or at the beginning of the chain; then the older head must be on the way.
        """
        if old is not None and old.chain != self.head.chain:
            return False
        if self.since == 0:
            reached, first, found = START, None, old is None
        elif old is not None and old.entries == self.since:
            reached, first, found = old.hash, self.head.chain, True
        else:
            return False
        for at, each in enumerate(self.links, start=self.since + 1):
            reached = linked(reached, each)
            first = first or reached
            found = found or (old is not None and (old.entries, old.hash) == (at, reached))
        end = (first, self.since + len(self.links), reached)
        return found and end == (self.head.chain, self.head.entries, self.head.hash)


def link(index: int, kind: str, body: dict[str, Any]) -> str:
    """Return the link of an entry: the digest of its number, its kind and its content."""
    return canonical.digest([index, kind, body])


def linked(previous: str, content: str) -> str:
    """Return the hash of the entry with a link that follows the entry with the hash ``previous``."""
    return canonical.digest([previous, content])


def signed_head(signer: Identity, head: Head) -> Signed:
    """Return a head, signed by whose chain it is of."""
    return signer.sign(head.KIND, head.wire())
