"""Bring people's records into the storage that a scenario names, block by block, on all cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from common.core.arrays import AnyArray
from common.data.population import RecordSource
from curator.sample.rows.base import Rows
from curator.sample.rows.layout import Layout
from curator.sample.rows.rowfile import RowFile

OnProgress = Callable[[str], None]
"""Called with each line of progress."""
Done = TypeVar("Done")
PAUSE = 5.0
"""Seconds between two lines of progress."""


def keep_in_memory(
    population: RecordSource, begin: int, end: int, layout: Layout, threads: int, on_progress: OnProgress
) -> Rows:
    """Return the records of people begin, ..., end - 1 in memory; beside them it takes a few MiB a thread."""
    columns: list[AnyArray] = [np.empty((end - begin, width), dtype=dtype) for dtype, width in layout.columns]

    def fill(first: int, last: int) -> None:
        for column, part in zip(columns, _encoded(population, begin + first, begin + last, layout), strict=True):
            column[first:last] = part

    for _ in each_block(fill, end - begin, layout.block, threads, "people drawn", on_progress):
        pass
    return layout.rows(columns)


def keep_on_disk(
    population: RecordSource,
    begin: int,
    end: int,
    layout: Layout,
    threads: int,
    on_progress: OnProgress,
    folder: Path,
    people: str,
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
    if not _intact(file, threads, on_progress):
        with file.written() as writer:

            def fill(first: int, last: int) -> str:
                return writer.write(first, _encoded(population, begin + first, begin + last, layout))

            for checksum in each_block(fill, end - begin, layout.block, threads, "people written", on_progress):
                writer.checksums.append(checksum)
    return layout.rows(file.columns())


def _intact(file: RowFile, threads: int, on_progress: OnProgress) -> bool:
    checksums = file.known()
    if checksums is None:
        return False
    found = each_block(file.checksum, file.count, file.layout.block, threads, "people read back", on_progress)
    if list(found) == checksums:
        return True
    on_progress(f"{file.path} does not hold what was written: it was damaged, and is written again")
    return False


def _encoded(population: RecordSource, first: int, last: int, layout: Layout) -> list[AnyArray]:
    return layout.encode(population.records(np.arange(first, last)))


def each_block(
    work: Callable[[int, int], Done], count: int, size: int, threads: int, what: str, on_progress: OnProgress
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
                on_progress(f"{end:,} of {count:,} {what}")
