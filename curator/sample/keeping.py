"""Bring people's records into the storage that a scenario names, block by block, on all cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from common.arrays import AnyArray
from common.people import Crowd
from curator.sample.layout import Layout
from curator.sample.rowfile import RowFile
from curator.sample.rows import Rows

Tell = Callable[[str], None]
"""Told of progress, in a line of text."""
Done = TypeVar("Done")
PAUSE = 5.0
"""Seconds between two lines of progress."""


def keep_in_memory(crowd: Crowd, begin: int, end: int, layout: Layout, threads: int, tell: Tell) -> Rows:
    """Return the records of people begin, ..., end - 1 in memory; beside them it takes a few MiB a thread."""
    columns: list[AnyArray] = [np.empty((end - begin, width), dtype=dtype) for dtype, width in layout.columns]

    def fill(first: int, last: int) -> None:
        for column, part in zip(columns, _encoded(crowd, begin + first, begin + last, layout), strict=True):
            column[first:last] = part

    for _ in each_block(fill, end - begin, layout.block, threads, "people drawn", tell):
        pass
    return layout.rows(columns)


def keep_on_disk(
    crowd: Crowd, begin: int, end: int, layout: Layout, threads: int, tell: Tell, folder: Path, people: str
) -> Rows:
    """Return the records of people begin, ..., end - 1 mapped from a file, which is written if it is not there whole.

    Parameters
    ----------
    folder
        Where the file is.
    people
        Digest of everything that decides who these people are: a file of others is not used.
    """
    file = RowFile(folder / f"rows-{begin}-{end}", layout, end - begin, people)
    if not _intact(file, threads, tell):
        with file.written() as writer:

            def fill(first: int, last: int) -> str:
                return writer.write(first, _encoded(crowd, begin + first, begin + last, layout))

            for checksum in each_block(fill, end - begin, layout.block, threads, "people written", tell):
                writer.checksums.append(checksum)
    return layout.rows(file.columns())


def _intact(file: RowFile, threads: int, tell: Tell) -> bool:
    checksums = file.known()
    if checksums is None:
        return False
    found = each_block(file.checksum, file.count, file.layout.block, threads, "people read back", tell)
    if list(found) == checksums:
        return True
    tell(f"{file.path} does not hold what was written: it was damaged, and is written again")
    return False


def _encoded(crowd: Crowd, first: int, last: int, layout: Layout) -> list[AnyArray]:
    return layout.encode(crowd.records(np.arange(first, last)))


def each_block(
    work: Callable[[int, int], Done], count: int, size: int, threads: int, what: str, tell: Tell
) -> Iterator[Done]:
    """Do work on every block (begin, end) of ``count`` items; yield what it returns, in order, and tell how far it is.

    The results do not depend on the number of threads if those of the work do not.
    """
    told = time.monotonic()
    with ThreadPoolExecutor(threads, "blocks") as pool:
        begins = range(0, count, size)
        ends = [min(begin + size, count) for begin in begins]
        for end, done in zip(ends, pool.map(work, begins, ends), strict=True):
            yield done
            if time.monotonic() - told > PAUSE:
                told = time.monotonic()
                tell(f"{end:,} of {count:,} {what}")
