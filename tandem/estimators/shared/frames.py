"""Whatever people's records come in (arrays, frames, files) becomes one kind of frame, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars

from common.core.arrays import AnyArray
from common.core.errors import BadFit
from common.lifetime.charging import Given
from common.lifetime.rows import rows_of_data
from common.people.tables import Layout
from common.people.tables.input.files import pieces
from common.people.tables.input.frames import is_file, is_frame, series


def handed_over(data: Any, label: str | None, id_column: str | None, layout: Layout) -> Given:
    """Return people as they were handed over, all columns but the label: by these they are recognised in other runs.

    Parameters
    ----------
    data
        A file, a frame, or an array of shape (n, d).
    label
        The column of the label, None if it is none of the data's.
    id_column
        The column that says who is who, None if there is none.
    layout
        How text files are written.

    Raises
    ------
    BadFit
        If there is no such id column.
    BadData
        If a file cannot be read.
    """
    frame, named = rows_of_data(data, label, layout)
    if id_column is not None and id_column not in frame.columns:
        raise BadFit(f"there is no column {id_column!r} in the data, which is named as the id of its people")
    return Given(frame, named, id_column, (Path(data),) if is_file(data) else ())


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
