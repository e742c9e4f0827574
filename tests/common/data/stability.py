"""What a changed field of one row of a file changes in a sample: for tests of small files and of the shipped ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars

from common.core.arrays import AnyArray, Indices, Words
from common.data.files import found, plain
from common.data.loading import numbered
from common.data.population import PopulationSpec, open_records, placed
from common.data.tables import TableSource
from common.local.records import Records
from common.numerics.randomness import RandomSource

SEED, KEY = 11, bytes(range(32))


class Exchanged(RandomSource):
    """The stream of a key in which two rows have each other's keys: a bijection of the keys that keeps their law."""

    def __init__(self, key: bytes, one: int, other: int) -> None:
        super().__init__(key, simulated=False)
        self._rows = one, other

    def words(self, count: int) -> Words:
        one, other = self._rows
        drawn = super().words(max(count, 2 * max(one, other) + 2)).reshape(-1, 2)
        drawn[[one, other]] = drawn[[other, one]]
        return drawn.reshape(-1)[:count]


class Sampled:
    """Who is in a sample, slot by slot, and their records."""

    def __init__(self, folder: Path, table: TableSource, size: int | None, secret: RandomSource) -> None:
        found = numbered(folder, table)
        slots = placed(found.rows, size, RandomSource.seeded(SEED, "people"), secret)
        self.rows: Indices = found.rows[slots]
        self.records: Records = found.records.take(slots)

    def __len__(self) -> int:
        return len(self.rows)

    def as_opened(self, folder: Path, table: TableSource) -> bool:
        opened = open_records(PopulationSpec(table=table), folder, SEED, len(self), RandomSource(KEY, simulated=False))
        return opened.fingerprint() == self.records.fingerprint()

    def slots_that_differ(self, other: Sampled) -> int:
        features = (self.records.features != other.records.features).any(axis=1)
        return int(np.count_nonzero(features | (self.records.labels != other.records.labels)))

    def people_that_differ(self, other: Sampled) -> int:
        """Count the records that one has and the other lacks, as multisets."""
        mine, theirs = (Counter(map(bytes, _rows(sampled.records))) for sampled in (self, other))
        return max(sum((mine - theirs).values()), sum((theirs - mine).values()))


def _rows(records: Records) -> Iterator[AnyArray]:
    labels = records.labels.astype(np.float32)[:, None]
    return iter(np.concatenate([records.features.astype(np.float32), labels], axis=1))


def sampled(table: TableSource, size: int, folder: Path) -> Sampled:
    """Return the sample that parties get, under one secret key of the order."""
    found = Sampled(folder, table, size, RandomSource(KEY, simulated=False))
    assert found.as_opened(folder, table)
    return found


def afterwards(before: Sampled, table: TableSource, size: int, changed: Path) -> Sampled:
    """Return the sample of the changed files, under a key that is as likely as that of ``before``.

    If a row leaves the sample and another enters it, these two have exchanged their keys; else the key is the same.
    """
    after = Sampled(changed, table, size, RandomSource(KEY, simulated=False))
    gone, come = np.setdiff1d(before.rows, after.rows), np.setdiff1d(after.rows, before.rows)
    assert len(gone) == len(come) <= 1
    if len(gone):
        after = Sampled(changed, table, size, Exchanged(KEY, int(gone[0]), int(come[0])))
    return after


def with_a_field_changed(folder: Path, into: Path, table: TableSource, row: int, column: str, text: str) -> Path:
    """Copy a table's files, with another text in one field of row number ``row`` over all files."""
    into.mkdir(parents=True, exist_ok=True)
    for name in table.files:
        source = found(folder / name)
        if source.suffix == ".parquet":
            frame = polars.read_parquet(source)
            if 0 <= row < len(frame):
                frame[row, column] = polars.Series([text]).cast(frame.schema[column], strict=False)[0]
            row -= len(frame)
            frame.write_parquet(into / source.name)
            continue
        target = into / source.name.removesuffix(".xz").removesuffix(".gz")
        lines = _text(source).splitlines()
        places = [at for at in range(len(lines)) if _is_row(lines, at, table)]
        if 0 <= row < len(places):
            names = list(table.layout.columns) or _fields(lines[0], table)
            fields = _fields(lines[places[row]], table)
            fields[names.index(column)] = text
            lines[places[row]] = table.layout.separator.join(fields)
        row -= len(places)
        target.write_text("\n".join(lines) + "\n")
    return into


def _text(path: Path) -> str:
    with plain(path) as stream:
        return stream.read().decode()


def _is_row(lines: list[str], at: int, table: TableSource) -> bool:
    comment = table.layout.comment is not None and lines[at].startswith(table.layout.comment)
    header = at == 0 and not table.layout.columns
    return bool(lines[at].strip()) and not comment and not header and at >= table.layout.skip_lines


def _fields(line: str, table: TableSource) -> list[str]:
    return [field.strip() for field in line.split(table.layout.separator)]
