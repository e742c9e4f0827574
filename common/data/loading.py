"""From text columns of files, or rows from a user, to records: filter, select, encode; each row independently."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices, Labels, Singles
from common.core.errors import BadData
from common.data import files
from common.data.files import Piece, cached_pieces, header_of, is_typed, pieces, typed, typed_pieces
from common.data.schema import Schema
from common.data.tables import Label, Layout, Number, Selection, TableSource, scaled, shortened
from common.local.records import Records
from common.numerics.randomness import RandomSource

if TYPE_CHECKING:
    import polars


class Numbered(NamedTuple):
    """The records that a source keeps, and their row numbers, ascending, counted from 0 over all files."""

    records: Records
    rows: Indices


def load(data: Path, source: TableSource) -> Records:
    """Return the records of :func:`numbered`, in the order of the files."""
    return numbered(data, source).records


def numbered(data: Path, source: TableSource, observe: Callable[[Piece], None] | None = None) -> Numbered:
    """Read, filter and encode the records of a source from a directory; each row by rules that depend on it only.

    ``observe`` is called with the rows that are kept, as they are in the files. Features are float32 in [0, 1], with L2
    norm at most ``source.norm`` if that is given.

    Raises:
        BadData: If a file cannot be read, a row is malformed, a number is NaN, infinite or no number, a label is
            undeclared, or no row is left. Messages name files, lines and columns, never the contents of a field.
    """
    paths = [files.resolve(data / file) for file in source.files]
    read = (cached_pieces(path, source.layout, source.columns) for path in paths)
    numbered_records = select_rows(chain.from_iterable(read), source, observe)
    if not len(numbered_records.records):
        raise BadData(f"{', '.join(source.files)}: no row is left after the filters; at least one is needed")
    return numbered_records


def select_rows(read: Iterable[Piece], source: TableSource, observe: Callable[[Piece], None] | None = None) -> Numbered:
    """Filter and encode all rows, read in order, as :func:`numbered` does; possibly no row is left."""
    features: list[Singles] = [np.empty((0, source.dimension), dtype=np.float32)]
    labels: list[Labels] = [np.empty(0, dtype=np.int8)]
    numbers: list[Indices] = [np.empty(0, dtype=np.int64)]
    passed = 0
    chosen_by = None if source.selection is None else _coins(source.selection, source.layout)
    for piece in read:
        kept = np.ones(len(piece.frame), dtype=bool) if chosen_by is None else chosen_by(piece)
        for name in source.where:
            kept &= piece.frame[name].is_in(source.where_texts(name)).to_numpy()
        rows = np.flatnonzero(kept)
        chosen = Piece(piece.file, piece.frame[rows], piece.lines[rows])
        features.append(encode_piece(chosen, source))
        labels.append(_labels(chosen, source.label, source.layout))
        if observe is not None:
            observe(chosen)
        numbers.append(passed + rows)
        passed += len(kept)
    return Numbered(Records(np.concatenate(features), np.concatenate(labels)).check(), np.concatenate(numbers))


def encode(frame: polars.DataFrame, source: TableSource) -> Singles:
    """Return the features of a frame's rows, as :func:`encode_piece` does; other columns are ignored."""
    columns = frozenset(feature.column for feature in source.features)
    return encode_piece(typed("the frame", frame, columns, source.layout), source)


def _coins(selection: Selection, layout: Layout) -> Callable[[Piece], AnyArray]:
    """Return a function that selects rows with two coins each, shape (rows,), bool; call it with all rows in order."""
    asked, willing = (RandomSource.seeded(selection.seed, "selection", coin) for coin in ("asked", "willing"))

    def select(piece: Piece) -> AnyArray:
        unasked = asked.uniforms(len(piece.frame)) < selection.unasked
        volunteers = willing.uniforms(len(piece.frame)) < volunteering(piece, selection, layout)
        return unasked if selection.keep == "population" else ~unasked & volunteers

    return select


def volunteering(piece: Piece, selection: Selection, layout: Layout) -> Floats:
    """Return each row's public probability to volunteer if asked, shape (rows,)."""
    probability = np.full(len(piece.frame), selection.willing)
    for condition in selection.unless:
        if condition.values:
            holds = piece.frame[condition.column].is_in(condition.texts(layout)).to_numpy()
        else:
            numbers = numbers_of(piece, condition.column, layout)
            low = -np.inf if condition.above is None else condition.above
            high = np.inf if condition.below is None else condition.below
            holds = (low < numbers) & (numbers <= high)
        probability[holds] *= condition.factor
    return probability


def encode_piece(piece: Piece, source: TableSource | Schema, inputs: Collection[int] | None = None) -> Singles:
    """Return the features of a file's rows by the rules of :func:`load`, shape (rows, ``source.dimension``), float32.

    ``inputs`` are the features that are needed; None: all, which rows scaled down to a norm need. Features of columns
    without a needed feature are 0, and need no column. BadData if a number is NaN, infinite or not a number.
    """
    columns: list[AnyArray] = []
    for feature in source.features:
        places = range(len(columns), len(columns) + feature.width)
        if inputs is not None and not any(number in inputs for number in places):
            columns.extend(np.zeros(len(piece.frame)) for _ in places)
        elif isinstance(feature, Number):
            columns.append(scaled(numbers_of(piece, feature.column, source.layout), feature))
        else:
            texts = piece.frame[feature.column]
            columns.extend(texts.is_in(group).to_numpy() for group in feature.texts(source.layout))
    return shortened(np.stack(columns, axis=1).astype(np.float64), source.norm)


def numbers_of(piece: Piece, column: str, layout: Layout) -> Floats:
    """Return a column as numbers, with NaN only for missing fields; BadData if a field is not a finite number."""
    numbers, wrong = numbers_and_wrong(piece.frame[column], layout)
    bad = np.flatnonzero(wrong)
    if bad.size:
        remedy = "a text that stands for a missing one is listed in layout.missing, a decimal comma is layout.decimal"
        raise _flaw(piece, column, bad, "must be a finite number", remedy)
    return numbers


def numbers_and_wrong(texts: polars.Series, layout: Layout) -> tuple[Floats, AnyArray]:
    """Return fields as numbers, NaN for all others, and which fields are neither a finite number nor missing."""
    import polars

    absent = texts.is_in(layout.missing_texts).to_numpy()
    numbers = texts.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    wrong = ~absent & ~np.isfinite(numbers)
    numbers[absent | wrong] = np.nan
    return numbers, wrong


def _labels(piece: Piece, label: Label, layout: Layout) -> Labels:
    positive, negative = with_labels(piece.frame[label.column], label, layout)
    bad = np.flatnonzero(~positive & ~negative)
    if bad.size and label.above is not None:
        numbers_of(piece, label.column, layout)  # raises if a field is not a number
        raise _flaw(piece, label.column, bad, "the label is missing", "leave such rows out with where")
    if bad.size:
        remedy = "declare it, or leave such rows out with where"
        raise _flaw(piece, label.column, bad, "the label is outside the declared set", remedy)
    return np.where(positive, np.int8(1), np.int8(-1))


def with_labels(texts: polars.Series, label: Label, layout: Layout) -> tuple[AnyArray, AnyArray]:
    """Return which fields of the label's column mean +1, and which mean -1."""
    if label.above is not None:
        numbers, _ = numbers_and_wrong(texts, layout)
        return numbers > label.above, numbers <= label.above
    positive, negative = (texts.is_in(group).to_numpy() for group in label.texts(layout))
    return positive, negative


def _flaw(piece: Piece, column: str, rows: Indices, flaw: str, remedy: str) -> BadData:
    more = f" (and {len(rows) - 1} more such rows)" if len(rows) > 1 else ""
    return BadData(f"{piece.file}: line {piece.lines[rows[0]]}, column {column!r}: {flaw}{more}; {remedy}")


_NAME = "the data"


def is_file(data: Any) -> bool:
    """Return whether ``data`` is the path of a file."""
    return isinstance(data, str | Path)


def is_frame(data: Any) -> bool:
    """Return whether ``data`` is a polars or pandas frame, which has named columns."""
    import polars

    return isinstance(data, polars.DataFrame) or (hasattr(data, "iloc") and hasattr(data, "columns"))


_NO_TABLES = (".yaml", ".yml", ".json", ".jsonl", ".html", ".onnx", ".joblib", ".xlsx", ".zip")


def rows_of(data: Any, columns: frozenset[str], layout: Layout) -> Iterator[Piece]:
    """Yield the given columns of a user's rows as texts, piece by piece; BadData if they cannot be read.

    Args:
        data: The path of a file (``.csv``, also ``.xz`` or ``.gz``, ``.parquet``, ``.npy``, ``.npz``), a frame of
            polars or pandas, or a sequence of mappings, each of which has every column (None if a value is not
            known).
        layout: How text files are written. If the first line of a file names all these columns, it is a header,
            even if the layout states otherwise.
    """
    if is_file(data):
        path = Path(data)
        if path.suffix.lower() in _NO_TABLES:
            raise BadData(
                f"{path.name}: a {path.suffix} file holds no rows to predict for: give a text table such as .csv (also "
                ".csv.xz, .csv.gz), .parquet, .npy or .npz"
            )
        if not is_typed(path) and (layout.columns or layout.skip_lines):
            plain = layout.model_copy(update={"columns": (), "skip_lines": 0})
            layout = plain if columns <= set(header_of(path, plain)) else layout
        yield from pieces(path, layout, columns)
    elif is_frame(data):
        yield from typed_pieces(_NAME, data, columns, layout)
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        for place, row in enumerate(data, start=1):
            if not isinstance(row, Mapping):
                raise BadData(f"row {place} must be a mapping of columns to values, found {type(row).__name__}")
            absent = sorted(columns - row.keys())
            if absent:
                raise BadData(f"row {place} has no field {absent[0]!r} (None stands for a value that is not known)")
        yield typed(_NAME, {name: [row[name] for row in data] for name in columns}, columns, layout)
    else:
        raise BadData(
            f"rows must be in a file, a polars or pandas frame, or a list of mappings, found {type(data).__name__}"
        )
