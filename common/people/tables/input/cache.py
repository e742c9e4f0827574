"""A cache of files' rows as text: the parties of one process, and their baselines, read the same files."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

from common.people.tables.input.files import Piece, pieces
from common.people.tables.source import Layout

MOST = 1 << 26
"""Bytes of text that are kept in all; a file of more is read each time."""
SETTLED = 2.0
"""Seconds since a file was changed before it is kept: what is written twice within a tick of the clock looks alike."""

_Key = tuple[Path, tuple[int, ...], str, frozenset[str]]


class PieceCache:
    """Pieces of files as they were read last, for as long as the files are the same; the least recently used go first.

    Parameters
    ----------
    read
        Reads a file, as :func:`common.people.tables.input.files.pieces`.
    """

    def __init__(self, read: Callable[[Path, Layout, frozenset[str]], Iterator[Piece]] = pieces) -> None:
        self._read = read
        self._kept: OrderedDict[_Key, tuple[Piece, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def pieces(self, path: Path, layout: Layout, columns: frozenset[str]) -> Iterator[Piece]:
        """Yield the given columns of a file, piece by piece; parameters and errors are those of reading it."""
        key = _key(path, layout, columns)
        if key is None:
            yield from self._read(path, layout, columns)
            return
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
        if known is not None:
            yield from known
            return
        kept: list[Piece] | None = []
        size = 0
        for piece in self._read(path, layout, columns):
            piece.lines.flags.writeable = False
            size += _size(piece)
            if kept is not None:
                kept.append(piece)
                kept = kept if size <= MOST else None
            yield piece
        if kept is not None and _key(path, layout, columns) == key:
            self._keep(key, tuple(kept))

    def _keep(self, key: _Key, read: tuple[Piece, ...]) -> None:
        with self._lock:
            self._kept[key] = read
            while sum(_size(piece) for known in self._kept.values() for piece in known) > MOST:
                self._kept.popitem(last=False)


def _size(piece: Piece) -> int:
    return int(piece.frame.estimated_size()) + piece.lines.nbytes


def _key(path: Path, layout: Layout, columns: frozenset[str]) -> _Key | None:
    """Return what tells a file from others and from what it was before; None where that cannot be told."""
    try:
        about = path.stat()
    except OSError:
        return None
    if time.time() - about.st_ctime < SETTLED:  # anybody may set the time of writing, nobody that of the change
        return None
    state = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return path.absolute(), state, layout.fingerprint(), columns


CACHE = PieceCache()
"""That of this process."""
