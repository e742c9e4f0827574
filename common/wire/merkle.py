"""Merkle trees: a root says what is in a list, and a path of a few hashes shows that one thing is in it.

Leaves and nodes are hashed under different first bytes, so that no node passes for a leaf (RFC 6962, section 2.1, has
the same two bytes). The last of an odd number of nodes goes up as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

_SIZE = 32
_EMPTY = hashlib.sha256(b"").hexdigest()


class Tree:
    """A tree with all of its nodes: 64 bytes a leaf.

    Parameters
    ----------
    leaves
        Byte strings, in order; gone through once.
    """

    def __init__(self, leaves: Iterable[bytes]) -> None:
        level = b"".join(_leaf(leaf) for leaf in leaves)
        self._levels = [level]
        while len(level) > _SIZE:
            level = b"".join(_above(level[at : at + 2 * _SIZE]) for at in range(0, len(level), 2 * _SIZE))
            self._levels.append(level)

    def __len__(self) -> int:
        return len(self._levels[0]) // _SIZE

    @property
    def root(self) -> str:
        """The root, hex; of no leaves the SHA-256 of nothing."""
        return self._levels[-1].hex() or _EMPTY

    def find(self, leaf: bytes) -> int | None:
        """Return where a leaf is first, None if it is nowhere."""
        wanted, at = _leaf(leaf), -1
        while (at := self._levels[0].find(wanted, at + 1)) >= 0:
            if at % _SIZE == 0:
                return at // _SIZE
        return None

    def path(self, index: int) -> tuple[str, ...]:
        """Return the hashes beside the way from a leaf to the root, from below, hex.

        Raises
        ------
        IndexError
            If there is no such leaf.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} leaves, and none with number {index}")
        found = []
        for level in self._levels[:-1]:
            beside = level[(index ^ 1) * _SIZE : (index ^ 1) * _SIZE + _SIZE]
            if beside:
                found.append(beside.hex())
            index //= 2
        return tuple(found)


def merkle_root(leaves: Iterable[bytes]) -> str:
    """Return the SHA-256 Merkle root of some byte strings in order, hex."""
    return Tree(leaves).root


def climbed(leaf: bytes, index: int, count: int, path: Sequence[str]) -> str | None:
    """Return the root to which a path leads from the leaf with a number among so many; None if it leads nowhere.

    Whoever finds a given root so knows that the leaf is in the list (or has found a collision of SHA-256).
    """
    if not 0 <= index < count:
        return None
    node, left = _leaf(leaf), list(path)
    while count > 1:
        if index ^ 1 < count:
            if not left:
                return None
            try:
                beside = bytes.fromhex(left.pop(0))
            except ValueError:
                return None
            node = _above(beside + node if index % 2 else node + beside)
        index, count = index // 2, (count + 1) // 2
    return None if left else node.hex()


def _leaf(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + leaf).digest()


def _above(pair: bytes) -> bytes:
    return pair if len(pair) == _SIZE else hashlib.sha256(b"\x01" + pair).digest()
