"""Freed memory is kept for the next block, where the C library can be told to."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
_BLOCK = 1 << 25
"""Arrays up to this size, in bytes (the largest that glibc accepts), come from memory that the process has already."""
_KEPT = 1 << 28
"""Bytes that may be kept."""


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory, up to 256 MiB of it; does nothing elsewhere.

    Samples are gone through in blocks of a few megabytes. By default each block's arrays are given back to the system
    and asked for again, page by page, which takes longer than what is computed of them.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _BLOCK)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
