"""The source of a sample, its memory and disk requirements, and the loading of its records into storage."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from common.core import canonical
from common.core.arrays import AnyArray
from common.core.durable import write_durably
from common.core.errors import BadInput
from common.core.machine import check_disk, check_memory, size
from common.data.population import PopulationSpec, RecordSource, open_records
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.scenario.scenario import ResolvedScenario
from common.scenario.sections import Storage
from curator.sample.rows import FixedRows, Grid, ShardRows, SingleRows

if TYPE_CHECKING:
    from common.data.examining import Notes
    from common.data.population import Contributed

PROCESS = 256 << 20  # bytes of a worker without any people
STORE = 256 << 20  # bytes of shared memory for proposals and draws to and from workers on this machine

OnProgress = Callable[[str], None]  # called with each line of progress
BlockResult = TypeVar("BlockResult")
Encode = Callable[[int, int], list[AnyArray]]  # returns the columns of the records first, ..., last - 1
PAUSE = 5.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Source:
    """The source and storage of a sample, with everything that another process of the curator needs to know.

    Files of records are in ``folder``, those of tables in ``data``. For ``seed``, ``contributed`` and the key of the
    secret ``order``, see :func:`common.data.population.open_records`.
    """

    scenario: ResolvedScenario
    seed: int
    folder: Path
    data: Path | None
    order: bytes | None = field(default=None, repr=False)
    contributed: Contributed | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        return self.scenario.curator.n

    def population(self, on_notes: Callable[[Notes], None] | None = None) -> RecordSource:
        order = None if self.order is None else RandomSource(self.order, simulated=False)
        return open_records(
            self.scenario.source, self.data, self.seed, self.size, order, counted=on_notes, contributed=self.contributed
        )

    def layout(self, population: RecordSource) -> RecordLayout:
        return RecordLayout.for_storage(
            self.scenario.curator.storage, self.scenario.source, population.records(np.arange(1))
        )

    def planned_layout(self) -> RecordLayout:
        """Return the layout that the sample will have; reads no table, and draws no people if their type is known."""
        people = self.scenario.source
        kind = np.float32 if people.distribution is None else people.distribution.feature_type
        if kind is None:
            return self.layout(self.population())
        example = Records(np.zeros((1, people.dimension), dtype=kind), np.ones(1, dtype=np.int8))
        return RecordLayout.for_storage(self.scenario.curator.storage, people, example)

    def rows(self, population: RecordSource, begin: int, end: int, threads: int, on_progress: OnProgress) -> ShardRows:
        layout, storage, source = self.layout(population), self.scenario.curator.storage, self.scenario.source

        def encode(first: int, last: int) -> list[AnyArray]:
            return layout.encode(population.records(np.arange(begin + first, begin + last)))

        if storage.place == "memory":
            return _memory_rows(encode, end - begin, layout, threads, on_progress)
        people = [source.wire(), str(self.seed), self.size, storage.numbers, population.fingerprint()]
        file = RowFile(self.folder / f"rows-{begin}-{end}", layout, end - begin, canonical.digest(people))
        if not _is_intact(file, threads, on_progress):
            file.write(encode, threads, on_progress)
        return layout.rows(file.columns())

    def check(self, work: Callable[[int, int], int]) -> None:
        """Refuse, before any work, a sample that does not fit into memory or on the disk during a run.

        Memory holds the rows, if they are stored there, one count of mistakes per record, a table as it is read and
        again in its random order, and the memory of the work on the sample. The disk holds the rows, if they are stored
        there, and the counts twice, since a new file of counts is written before the old one is deleted.

        Args:
            work: Returns the bytes of that work, from the number of features and the bytes of one.
        """
        storage, n = self.scenario.curator.storage, self.size
        layout = self.planned_layout()
        width, work_bytes = layout.width, work(layout.dimension, layout.dtype.itemsize)
        table = 0 if self.scenario.source.table is None else 2 * n * (4 * layout.dimension + 1)
        # Counts take one byte up to 255 reweighs, two or four beyond, and both widths while they are widened.
        rounds = self.scenario.curator.rounds
        widths = [1, *(wide for wide, most in ((2, 0xFF), (4, 0xFFFF)) if rounds > most)]
        rows, widest, counts = n * width, n * widths[-1], n * sum(widths[-2:])
        in_memory = storage.place == "memory"
        what = f"a sample of {n:,} people of {width} bytes"
        advice = "take fewer people (curator.n)"
        if work_bytes:
            what = f"{what}, with {size(work_bytes)} for the learner's work on it,"
            advice = f"{advice}, or ask less of the learner (curator.learner)"
        halve = "halve the rows (curator.storage.numbers: fixed), " if self._can_halve() else ""
        remedy = f"keep the rows on disk (curator.storage.place: disk), {halve}or {advice}" if in_memory else advice
        spread = remedy + ", or spread it over a cluster (curator.storage.workers)"
        if storage.workers == 0:
            check_memory(what, (rows if in_memory else 0) + counts + table + work_bytes, spread)
        elif not os.environ.get("RAY_ADDRESS"):
            # All workers are on this machine; each reads a table itself.
            shared = STORE + 2 * n + storage.workers * (PROCESS + table)
            check_memory(what, (rows if in_memory else 0) + counts + shared + work_bytes, spread)
        elif work_bytes:
            check_memory(f"a learner's work on {n:,} people of {width} bytes", work_bytes, advice)
        stored = sum(file.stat().st_size for file in self.folder.glob("rows-*"))
        needed = 2 * widest + (0 if in_memory else max(0, rows - stored))
        check_disk(what, needed, self.folder, advice if in_memory else f"{halve}{'or ' if halve else ''}{advice}")

    def _can_halve(self) -> bool:
        storage, source = self.scenario.curator.storage, self.scenario.source
        if storage.numbers == "fixed" or source.table is not None:
            return storage.numbers != "fixed"
        try:
            RecordLayout.for_storage(Storage(numbers="fixed"), source, self.population().records(np.arange(1)))
        except BadInput:
            return False
        return True


def _memory_rows(encode: Encode, count: int, layout: RecordLayout, threads: int, on_progress: OnProgress) -> ShardRows:
    """Return records in memory; this needs a few MiB more per thread."""
    columns: list[AnyArray] = [np.empty((count, width), dtype=dtype) for dtype, width in layout.columns]

    def fill(first: int, last: int) -> None:
        for column, part in zip(columns, encode(first, last), strict=True):
            column[first:last] = part

    for _ in map_blocks(fill, count, layout.block, threads, "people drawn", on_progress):
        pass
    return layout.rows(columns)


def _is_intact(file: RowFile, threads: int, on_progress: OnProgress) -> bool:
    checksums = file.stored_checksums()
    if checksums is None:
        return False
    digests = map_blocks(file.checksum, file.count, file.layout.block, threads, "people read back", on_progress)
    if list(digests) == checksums:
        return True
    on_progress(f"{file.path} does not hold what was written: it was damaged, and is written again")
    return False


def map_blocks(
    work: Callable[[int, int], BlockResult], count: int, size: int, threads: int, what: str, on_progress: OnProgress
) -> Iterator[BlockResult]:
    """Do work on every block (begin, end) of ``count`` items; yield its results in order, and report progress.

    The results do not depend on the number of threads if those of the work do not.
    """
    last_report = time.monotonic()
    with ThreadPoolExecutor(threads, "blocks") as pool:
        begins = range(0, count, size)
        ends = [min(begin + size, count) for begin in begins]
        for end, result in zip(ends, pool.map(work, begins, ends), strict=True):
            yield result
            if time.monotonic() - last_report > PAUSE:
                last_report = time.monotonic()
                on_progress(f"{end:,} of {count:,} {what}")


_CELLS = 1 << 19
_PAGE = 4096
_FORMAT = 1


@dataclass(frozen=True)
class RecordLayout:
    """The type and width of the columns in which records are stored, each an array with one row per record.

    ``grid`` has the meaning of codes; None if features are stored without encoding, with labels beside them.
    """

    columns: tuple[tuple[np.dtype[Any], int], ...]
    grid: Grid | None

    @property
    def dimension(self) -> int:
        return self.columns[0][1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32) if self.grid is not None else self.columns[0][0]

    @classmethod
    def for_storage(cls, storage: Storage, people: PopulationSpec, example: Records) -> RecordLayout:
        """Return the layout that a scenario's storage section names, for people with these example records.

        Fixed-point numbers are refused for features without public bounds, and for 0/1 features.
        """
        grid = Grid.for_population(people) if storage.numbers == "fixed" else None
        if grid is not None:
            grid.encode(example)
            return cls(((np.dtype(np.uint16), example.dimension),), grid)
        return cls(((example.features.dtype, example.dimension), (np.dtype(np.int8), 1)), None)

    @property
    def width(self) -> int:
        return sum(dtype.itemsize * width for dtype, width in self.columns)

    @property
    def block(self) -> int:
        """Number of records that are drawn and written at a time, a few MiB."""
        return max(1, _CELLS // max(1, self.dimension))

    def encode(self, records: Records) -> list[AnyArray]:
        if self.grid is not None:
            return [self.grid.encode(records)]
        return [records.features, records.labels.reshape(-1, 1)]

    def rows(self, columns: list[AnyArray]) -> ShardRows:
        if self.grid is not None:
            return FixedRows(columns[0], self.grid)
        return SingleRows(Records(columns[0], np.asarray(columns[1]).reshape(-1)))


class RowFile:
    """Consecutive columns in one file, each aligned to a page, with a second file of SHA-256 of every block.

    The checksums are written last, after the file is on disk under its name. So if they exist, the file was complete.
    ``people`` is a digest of everything that determines these ``count`` people; a file of other people is not used.
    """

    def __init__(self, path: Path, layout: RecordLayout, count: int, people: str) -> None:
        self.path, self.layout, self.count = path, layout, count
        self._sidecar = path.with_name(path.name + ".json")
        self._metadata = {"format": _FORMAT, "people": people, "count": count, "block": layout.block}
        self._offsets = [0]
        for dtype, width in layout.columns:
            end = self._offsets[-1] + count * width * dtype.itemsize
            self._offsets.append(-(-end // _PAGE) * _PAGE)
        self.size = self._offsets[-1]

    def stored_checksums(self) -> list[str] | None:
        """Return the checksums that were written for these people; None if the file is unfinished or truncated."""
        try:
            facts: dict[str, Any] = json.loads(self._sidecar.read_bytes())
            checksums = facts.pop("checksums")
            complete = self.path.stat().st_size == self.size
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return None
        return checksums if complete and facts == self._metadata else None

    def checksum(self, begin: int, end: int) -> str:
        """Return SHA-256 of the records begin, ..., end - 1 in the file, in hex."""
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            for (dtype, width), offset in zip(self.layout.columns, self._offsets, strict=False):
                step = width * dtype.itemsize
                digest.update(os.pread(file.fileno(), (end - begin) * step, offset + begin * step))
        return digest.hexdigest()

    def columns(self) -> list[AnyArray]:
        return [
            np.memmap(self.path, dtype, "r", offset, (self.count, width))
            for (dtype, width), offset in zip(self.layout.columns, self._offsets, strict=False)
        ]

    def write(self, encode: Encode, threads: int, on_progress: OnProgress) -> None:
        """Write the columns of each block of records, then move the file to its place, and then write its checksums.

        If that fails, no file remains.
        """
        part = self.path.with_name(self.path.name + ".part")
        self._sidecar.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

        def write_block(first: int, last: int) -> str:
            digest = hashlib.sha256()
            for column, offset in zip(encode(first, last), self._offsets, strict=False):
                content = np.ascontiguousarray(column).data.cast("B")
                digest.update(content)
                place = offset + first * column.shape[1] * column.itemsize
                while content:
                    size = os.pwrite(descriptor, content, place)
                    content, place = content[size:], place + size
            return digest.hexdigest()

        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, self.size)
            else:  # macOS: a full disk is noticed during writing
                os.ftruncate(descriptor, self.size)
            block, what = self.layout.block, "people written"
            checksums = list(map_blocks(write_block, self.count, block, threads, what, on_progress))
            os.fsync(descriptor)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        os.replace(part, self.path)
        write_durably(self._sidecar, json.dumps({**self._metadata, "checksums": checksums}).encode(), mode=0o600)
