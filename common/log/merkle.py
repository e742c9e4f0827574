"""Merkle trees: a root commits to a list, and a path of a few hashes proves that an element is in it.

Leaves and nodes are hashed with different first bytes, so that no node can be taken for a leaf (RFC 6962, section 2.1,
has the same two bytes). The last of an odd number of nodes moves up unchanged, as in the tree of that RFC. Another kind
of path proves that one list is the beginning of another one (RFC 9162, section 2.1.4).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

_SIZE = 32
_NODE = re.compile("[0-9a-f]{64}")
_EMPTY = hashlib.sha256(b"").hexdigest()


class Tree:
    """A tree with all of its nodes in memory: 64 bytes per leaf."""

    def __init__(self, leaves: Iterable[bytes]) -> None:
        level = b"".join(map(_leaf, leaves))
        self._levels = [level]
        while len(level) > _SIZE:
            level = b"".join(_parent(level[at : at + 2 * _SIZE]) for at in range(0, len(level), 2 * _SIZE))
            self._levels.append(level)

    def __len__(self) -> int:
        return len(self._levels[0]) // _SIZE

    @property
    def root(self) -> str:
        return self._levels[-1].hex() or _EMPTY

    def find(self, leaf: bytes) -> int | None:
        """Return the first index of a leaf, None if there is no such leaf."""
        target, offset = _leaf(leaf), -1
        while (offset := self._levels[0].find(target, offset + 1)) >= 0:
            if offset % _SIZE == 0:
                return offset // _SIZE
        return None

    def path(self, index: int) -> tuple[str, ...]:
        """Return the sibling hashes on the way from a leaf to the root, from the bottom up, hex."""
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} leaves, and none with number {index}")
        hashes = []
        for level in self._levels[:-1]:
            sibling = level[(index ^ 1) * _SIZE : (index ^ 1) * _SIZE + _SIZE]
            if sibling:
                hashes.append(sibling.hex())
            index //= 2
        return tuple(hashes)

    def consistency(self, first: int) -> tuple[str, ...]:
        """Return the consistency proof for the first ``first`` leaves, hex (RFC 9162, section 2.1.4.1)."""
        if not 1 <= first <= len(self):
            raise IndexError(f"there are {len(self)} leaves, and the first {first} are not the beginning of them")
        return tuple(node.hex() for node in self._beginning(first, 0, len(self), True))

    def beginning(self, first: int) -> str:
        """Return the root over the first ``first`` leaves, hex."""
        if not 0 <= first <= len(self):
            raise IndexError(f"there are {len(self)} leaves, and not {first}")
        peaks, start = [], 0
        while start < first:
            size = 1 << (first - start).bit_length() - 1
            peaks.append(self._subtree(start, size))
            start += size
        return _joined(peaks)

    def _beginning(self, first: int, start: int, size: int, whole: bool) -> list[bytes]:
        if first == size:
            return [] if whole else [self._subtree(start, size)]
        half = 1 << (size - 1).bit_length() - 1
        if first <= half:
            return [*self._beginning(first, start, half, whole), self._subtree(start + half, size - half)]
        return [*self._beginning(first - half, start + half, size - half, False), self._subtree(start, half)]

    def _subtree(self, start: int, size: int) -> bytes:
        level = (size - 1).bit_length()
        at = (start >> level) * _SIZE
        return self._levels[level][at : at + _SIZE]


class RunningRoot:
    """The root over leaves that are added one by one; it stores one hash for each power of two of them."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []

    def add(self, leaf: bytes) -> None:
        level, node = 0, _leaf(leaf)
        while self._peaks and self._peaks[-1][0] == level:
            level, node = level + 1, _parent(self._peaks.pop()[1] + node)
        self._peaks.append((level, node))

    @property
    def root(self) -> str:
        return _joined([node for _, node in self._peaks])


def _joined(peaks: Sequence[bytes]) -> str:
    if not peaks:
        return _EMPTY
    node = peaks[-1]
    for left in reversed(peaks[:-1]):
        node = _parent(left + node)
    return node.hex()


def merkle_root(leaves: Iterable[bytes]) -> str:
    """Return the SHA-256 Merkle root of some byte strings in order, hex; the strings are iterated once."""
    running = RunningRoot()
    for leaf in leaves:
        running.add(leaf)
    return running.root


def root_from_inclusion_proof(leaf: bytes, index: int, count: int, path: Sequence[str]) -> str | None:
    """Return the root that a path gives for leaf number ``index`` of ``count``; None if index or path is invalid."""
    if not 0 <= index < count or not all(map(_NODE.fullmatch, path)):
        return None
    node, siblings = _leaf(leaf), [bytes.fromhex(each) for each in path]
    while count > 1:
        if index ^ 1 < count:
            if not siblings:
                return None
            sibling = siblings.pop(0)
            node = _parent(sibling + node if index % 2 else node + sibling)
        index, count = index // 2, (count + 1) // 2
    return None if siblings else node.hex()


def verify_consistency(older: str, first: int, newer: str, count: int, path: Sequence[str]) -> bool:
    """Return whether a path proves that the ``count`` leaves of a newer root begin with the ``first`` of an older one.

    RFC 9162, section 2.1.4.2.
    """
    if not 1 <= first <= count:
        return False
    if first == count:
        return older == newer and not path
    hashes = (older, *path) if first & (first - 1) == 0 else path
    if not hashes or not all(map(_NODE.fullmatch, hashes)):
        return False
    nodes = [bytes.fromhex(each) for each in hashes]
    index, last = first - 1, count - 1
    while index % 2:
        index, last = index // 2, last // 2
    old = new = nodes[0]
    for sibling in nodes[1:]:
        if last == 0:
            return False
        if index % 2 or index == last:
            old, new = _parent(sibling + old), _parent(sibling + new)
            while index % 2 == 0 and index:
                index, last = index // 2, last // 2
        else:
            new = _parent(new + sibling)
        index, last = index // 2, last // 2
    return last == 0 and (old.hex(), new.hex()) == (older, newer)


def _leaf(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + leaf).digest()


def _parent(pair: bytes) -> bytes:
    return pair if len(pair) == _SIZE else hashlib.sha256(b"\x01" + pair).digest()
