"""Files that may be compressed: ``.xz`` or ``.gz``, under their own name or beside where the plain one should be."""

from __future__ import annotations

import gzip
import lzma
import zlib
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any

CORRUPT = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error)
"""What reading a compressed file raises that is cut off or corrupt."""


def found(path: Path) -> Path:
    """Return the file itself, or the same file as it is found compressed beside where it should be."""
    compressed = (path.with_name(path.name + suffix) for suffix in (".xz", ".gz"))
    return path if path.exists() else next((p for p in compressed if p.exists()), path)


def plain(path: Path) -> BufferedIOBase:
    """Open a file's content as it is before any compression."""
    if path.suffix.lower() == ".xz":
        return _buffered(lzma.open(path))
    if path.suffix.lower() == ".gz":
        return _buffered(gzip.open(path))
    return path.open("rb")


def _buffered(content: Any) -> BufferedIOBase:
    """Return the same content, of which lines are found by compiled code; both modules look for them in Python."""
    return BufferedReader(content, 1 << 16)
