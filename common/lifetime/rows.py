"""Rows as they were given, all columns as canonical texts: what people are recognised by, before any schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from common.core.errors import BadData
from common.data.tables import Layout, TableSource
from common.data.tables.files import CACHE, columns_of, is_typed, pieces
from common.data.tables.frames import is_file, is_frame
from common.data.tables.texts import canonical_texts


def rows_of_files(paths: Sequence[Path], table: TableSource) -> Iterator[polars.DataFrame]:
    """Yield all rows of a table's files, whatever is read of them, with all columns but the label.

    The same people with another label are the same people. Columns that are not in all of the files, twice in one, or
    of values that have no text (lists, say) are left out.

    Raises
    ------
    BadData
        If a file cannot be read.
    """
    shared: set[str] = set()
    for number, path in enumerate(paths):
        names = columns_of(path, table.layout)
        once = {name for name in names if names.count(name) == 1}
        shared = once if number == 0 else shared & once
    shared -= {table.label.column}
    wanted = frozenset(shared)
    for path in paths:
        wanted &= _readable(path, table.layout, wanted)
    for path in paths:
        yield from (piece.frame for piece in CACHE.pieces(path, table.layout, wanted))


def _readable(path: Path, layout: Layout, names: frozenset[str]) -> frozenset[str]:
    """Return those columns of a file whose values have texts."""

    def reads(some: frozenset[str]) -> bool:
        try:
            for _ in pieces(path, layout, some):
                if not is_typed(path):
                    break  # all texts of a text file are texts
        except (BadData, polars.exceptions.PolarsError):
            return False
        return True

    return names if reads(names) else frozenset(name for name in names if reads(frozenset({name}))) or names


def rows_of_data(data: Any, label: str | None, layout: Layout) -> tuple[polars.DataFrame, bool]:
    """Return all rows of somebody's data, all columns but the label, and whether its columns have names.

    Parameters
    ----------
    data
        A file, a frame, or an array of shape (n, d). Columns that are there twice, or of values that have no text, are
        left out.
    label
        The column of the label, None if it is none of the data's.
    layout
        How text files are written.

    Raises
    ------
    BadData
        If a file cannot be read.
    """
    if is_file(data):
        path, names = Path(data), columns_of(Path(data), layout)
        wanted = _readable(path, layout, frozenset(name for name in names if names.count(name) == 1 and name != label))
        return polars.concat([piece.frame for piece in pieces(path, layout, wanted)]), True
    if is_frame(data):
        names = list(data.columns)
        columns = {str(name): data[name] for name in names if names.count(name) == 1 and name != label}
        return _texts(columns), all(isinstance(name, str) for name in names)
    matrix = np.asarray(data)
    return _texts({f"x{at}": matrix[:, at] for at in range(matrix.shape[1])}), False


def _texts(columns: dict[str, Any]) -> polars.DataFrame:
    found = []
    for name, column in columns.items():
        try:
            found.append(canonical_texts(column, name))
        except BadData:
            continue
    return polars.DataFrame(found)
