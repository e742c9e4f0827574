"""How a record is laid out in storage: as one column of codes, or as features and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.data.population import PopulationSpec
from common.local.records import Records
from common.scenario.sections import Storage
from curator.sample.rows.base import Rows
from curator.sample.rows.fixed import FixedRows, Grid
from curator.sample.rows.single import SingleRows

_CELLS = 1 << 19


@dataclass(frozen=True)
class Layout:
    """The columns in which records are kept, one array each with a row a record.

    Attributes
    ----------
    columns
        Type and width of each column.
    grid
        What codes stand for; None where features are kept as they are, with labels beside them.
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
    def of(cls, storage: Storage, people: PopulationSpec, example: Records) -> Layout:
        """Return the layout that a scenario names for people of whom some records are given.

        Raises
        ------
        BadScenario, BadData
            If fixed-point numbers are wanted for features without public bounds, or of 0 and 1.
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

    def rows(self, columns: list[AnyArray]) -> Rows:
        """Return the rows that whole columns hold (not copied)."""
        if self.grid is not None:
            return FixedRows(columns[0], self.grid)
        return SingleRows(Records(columns[0], np.asarray(columns[1]).reshape(-1)))
