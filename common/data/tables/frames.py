"""Rows given by a user: a file, a frame of polars or pandas, or a list of mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars

from common.core.errors import BadData
from common.data.tables.files import PIECE, Piece, header_of, is_typed, pieces, typed
from common.data.tables.source import Layout

_NAME = "the data"


def is_file(data: Any) -> bool:
    """Tell whether the records are in a file: a path was given."""
    return isinstance(data, str | Path)


def is_frame(data: Any) -> bool:
    """Tell whether the records have named columns: a polars or pandas frame."""
    return isinstance(data, polars.DataFrame) or (hasattr(data, "iloc") and hasattr(data, "columns"))


def rows_of(data: Any, columns: frozenset[str], layout: Layout) -> Iterator[Piece]:
    """Yield the given columns of a user's rows, as text, piece by piece.

    Args:
        data: The path of a file (``.csv``, also ``.xz`` or ``.gz``, ``.parquet``, ``.npy``, ``.npz``), a frame of
            polars or pandas, or a sequence of mappings, each of which has every column (None where a value is not
            known). Further columns are left alone.
        columns: Their names, at least one.
        layout: How text files are written. A file whose first line names all the columns has a header, whatever the
            layout says of that.

    Raises:
        BadData: If a column is missing, there twice, or holds what has no text; or a file cannot be read.
    """
    if is_file(data):
        path = Path(data)
        yield from pieces(path, _with_header(path, columns, layout), columns)
    elif is_frame(data):
        yield from _framed(data, columns)
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        yield _listed(data, columns)
    else:
        raise BadData(
            f"rows must be in a file, a polars or pandas frame, or a list of mappings, found {type(data).__name__}"
        )


def _with_header(path: Path, columns: frozenset[str], layout: Layout) -> Layout:
    if is_typed(path) or not (layout.columns or layout.skip_lines):
        return layout
    plain = layout.model_copy(update={"columns": (), "skip_lines": 0})
    return plain if columns <= set(header_of(path, plain)) else layout


def _framed(data: Any, columns: frozenset[str]) -> Iterator[Piece]:
    for start in range(0, max(len(data), 1), PIECE):
        rows = (data if isinstance(data, polars.DataFrame) else data.iloc)[start : start + PIECE]
        piece = typed(_NAME, rows, columns)
        yield Piece(_NAME, piece.frame, piece.lines + start)


def _listed(data: Sequence[Any], columns: frozenset[str]) -> Piece:
    for place, row in enumerate(data, start=1):
        if not isinstance(row, Mapping):
            raise BadData(f"row {place} must be a mapping of columns to values, found {type(row).__name__}")
        absent = sorted(columns - row.keys())
        if absent:
            raise BadData(f"row {place} has no field {absent[0]!r} (None stands for a value that is not known)")
    return typed(_NAME, {name: [row[name] for row in data] for name in columns}, columns)
