"""Whatever people's records come in (arrays, frames, files) becomes one kind of frame, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars

from common.core.arrays import AnyArray
from common.core.errors import BadFit
from common.people.tables import Layout
from common.people.tables.input.files import pieces
from common.people.tables.input.frames import is_file, is_frame, series


def numeric_frame(matrix: AnyArray, columns: Iterable[str]) -> polars.DataFrame:
    """Return numbers of shape (n, columns) as a frame."""
    return polars.DataFrame({name: np.ascontiguousarray(matrix[:, at]) for at, name in enumerate(columns)})


def chosen_columns(data: Any, columns: tuple[str, ...], layout: Layout) -> polars.DataFrame:
    """Return the named columns of a file, a frame, or an array whose columns are exactly these in this order.

    Raises
    ------
    BadFit
        If there is no such column, or an array has another number of them.
    BadData
        If a file cannot be read.
    """
    if is_file(data):
        return polars.concat([piece.frame for piece in pieces(Path(data), layout, frozenset(columns))]).select(columns)
    if is_frame(data):
        absent = [name for name in columns if name not in data.columns]
        if absent:
            raise BadFit(f"there is no column {absent[0]!r} in the data, which the schema names")
        if isinstance(data, polars.DataFrame):
            return data.select(columns)
        return polars.DataFrame({name: series(name, data[name].to_numpy()) for name in columns})
    matrix = np.asarray(data)
    if matrix.ndim != 2 or matrix.shape[1] != len(columns):
        raise BadFit(
            f"the schema names {len(columns)} columns, found an array of shape {matrix.shape}: give a frame with these "
            f"columns, or an array of them in this order: {', '.join(columns)}"
        )
    return polars.DataFrame({name: series(name, matrix[:, at]) for at, name in enumerate(columns)})
