"""How a record is laid out in storage, and a file of records that is larger than memory may be."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.durable import write_durably
from common.data.population import PopulationSpec
from common.local.records import Records
from common.scenario.sections import Storage
from curator.sample.fixed_rows import FixedRows, Grid
from curator.sample.rows import ShardRows
from curator.sample.single_rows import SingleRows

_CELLS = 1 << 19


@dataclass(frozen=True)
class RecordLayout:
    """The columns in which records are kept, one array each with a row a record.

    Attributes:
        columns: Type and width of each column.
        grid: What codes stand for; None where features are kept as they are, with labels beside them.
    """

    columns: tuple[tuple[np.dtype[Any], int], ...]
    grid: Grid | None

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self.columns[0][1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features as learners see them."""
        return np.dtype(np.float32) if self.grid is not None else self.columns[0][0]

    @classmethod
    def of(cls, storage: Storage, people: PopulationSpec, example: Records) -> RecordLayout:
        """Return the layout that a scenario names for people of whom some records are given.

        Raises:
            BadScenario, BadData: If fixed-point numbers are wanted for features without public bounds, or of 0 and 1.
        """
        grid = Grid.of(people) if storage.numbers == "fixed" else None
        if grid is not None:
            grid.encode(example)
            return cls(((np.dtype(np.uint16), example.dimension),), grid)
        return cls(((example.features.dtype, example.dimension), (np.dtype(np.int8), 1)), None)

    @property
    def width(self) -> int:
        """Bytes of one record."""
        return sum(dtype.itemsize * width for dtype, width in self.columns)

    @property
    def block(self) -> int:
        """Records that are drawn and written in one go: a few MiB."""
        return max(1, _CELLS // max(1, self.dimension))

    def encode(self, records: Records) -> list[AnyArray]:
        """Return the columns of some records, each of shape (n, width)."""
        if self.grid is not None:
            return [self.grid.encode(records)]
        return [records.features, records.labels.reshape(-1, 1)]

    def rows(self, columns: list[AnyArray]) -> ShardRows:
        """Return the rows that whole columns hold (not copied)."""
        if self.grid is not None:
            return FixedRows(columns[0], self.grid)
        return SingleRows(Records(columns[0], np.asarray(columns[1]).reshape(-1)))


_PAGE = 4096
_FORMAT = 1


class RowFile:
    """Columns one after the other in one file, each from a page's beginning on; and beside it SHA-256 of every block.

    The checksums are written last, after the file is on disk under its name, so where they are, the file was whole.

    Args:
        path: Its name; ``.json`` and ``.part`` are put behind it.
        layout: The columns.
        count: Number of records.
        people: Digest of who these people are.
    """

    def __init__(self, path: Path, layout: RecordLayout, count: int, people: str) -> None:
        self.path = path
        self.layout = layout
        self.count = count
        self._sidecar = path.with_name(path.name + ".json")
        self._facts = {"format": _FORMAT, "people": people, "count": count, "block": layout.block}
        self._offsets = [0]
        for dtype, width in layout.columns:
            end = self._offsets[-1] + count * width * dtype.itemsize
            self._offsets.append(-(-end // _PAGE) * _PAGE)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._offsets[-1]

    def known(self) -> list[str] | None:
        """Return the checksums that were written for these people; None if the file was never finished, or cut off."""
        try:
            facts: dict[str, Any] = json.loads(self._sidecar.read_bytes())
            checksums = facts.pop("checksums")
            whole = self.path.stat().st_size == self.size
        except (OSError, ValueError, KeyError, AttributeError):
            return None
        return checksums if whole and facts == self._facts else None

    def checksum(self, begin: int, end: int) -> str:
        """Return SHA-256 of the records begin, ..., end - 1 as they are in the file, in hex."""
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            for (dtype, width), offset in zip(self.layout.columns, self._offsets, strict=False):
                step = width * dtype.itemsize
                digest.update(os.pread(file.fileno(), (end - begin) * step, offset + begin * step))
        return digest.hexdigest()

    def columns(self) -> list[AnyArray]:
        """Return the columns, mapped from the file, read-only."""
        return [
            np.memmap(self.path, dtype, "r", offset, (self.count, width))
            for (dtype, width), offset in zip(self.layout.columns, self._offsets, strict=False)
        ]

    @contextmanager
    def written(self) -> Iterator[Writer]:
        """Give a writer; after it, put the file in its place, and then its checksums."""
        part = self.path.with_name(self.path.name + ".part")
        self._sidecar.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.size)
            writer = Writer(descriptor, self._offsets)
            yield writer
            os.fsync(descriptor)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        os.replace(part, self.path)
        content = json.dumps({**self._facts, "checksums": writer.checksums}).encode()
        write_durably(self._sidecar, content, mode=0o600)


class Writer:
    """Writes blocks of records to their places in a file, from any thread, in any order."""

    def __init__(self, descriptor: int, offsets: list[int]) -> None:
        self._descriptor = descriptor
        self._offsets = offsets
        self.checksums: list[str] = []

    def write(self, first: int, columns: list[AnyArray]) -> str:
        """Write the columns of a block that begins with record ``first``; return SHA-256 of what was written, in hex.

        Raises:
            OSError: If the disk is full.
        """
        digest = hashlib.sha256()
        for column, offset in zip(columns, self._offsets, strict=False):
            content = np.ascontiguousarray(column).data.cast("B")
            digest.update(content)
            place = offset + first * column.shape[1] * column.itemsize
            while content:
                done = os.pwrite(self._descriptor, content, place)
                content, place = content[done:], place + done
        return digest.hexdigest()
