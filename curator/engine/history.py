"""The history of a curator's operations: the order in which they came, and what each one's randomness comes from."""

from __future__ import annotations

from collections import Counter
from typing import Any

from common.core import canonical


def extended(lineage: str, number: str, operation: dict[str, Any]) -> str:
    """Return the digest of an operation and of everything before it, whose digest is ``lineage`` ("" for nothing)."""
    return canonical.digest([lineage, number, operation])


class History:
    """Operations in the order in which they were entered; only the last one may still be unfinished."""

    def __init__(self) -> None:
        self._lineages: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._before = self._last = ""

    def count(self, kind: str) -> int:
        """Return how many operations of a kind were entered."""
        return self._counts[kind]

    def lineage(self, number: str) -> str:
        """Return a digest of an operation and of everything before it.

        It is what the operation's randomness is derived from: the same operation after the same history is repeated bit
        for bit, and never with the same noise after another history, should somebody put an old ledger back.
        """
        return self._lineages[number]

    def enter(self, number: str, operation: dict[str, Any]) -> str:
        """Enter an operation (JSON) and return its lineage; the last one may be entered again.

        Raises
        ------
        ValueError
            If an earlier operation, or another one, has the number: it would get randomness that was used already.
        """
        known = self._lineages.get(number)
        if known is not None:
            if known != self._last or known != extended(self._before, number, operation):
                raise ValueError(f"operation {number} was entered already, with another operation or before others")
            return known
        self._before, self._last = self._last, extended(self._last, number, operation)
        self._lineages[number] = self._last
        self._counts[operation["kind"]] += 1
        return self._last
