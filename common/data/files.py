"""Table files (text, compressed or not, Parquet, NumPy) as columns of canonical texts, in pieces, cached.

Texts are those of :mod:`common.data.spelling`, for any library and type of a column. An error message is one line
without the contents of fields.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedIOBase, BufferedReader, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadData
from common.data.tables import Layout, Tokens

if TYPE_CHECKING:  # polars takes a tenth of a second to load, so only functions that read a table import it
    import polars

PIECE = 1 << 15  # rows in memory as text at a time
_LONGEST = 1 << 24  # characters of a field: limits the search for the end of a quote in a large file
_SEPARATORS = (";", "\t", "|", ",")  # common separators of fields
_TYPED = (".parquet", ".npy", ".npz")  # suffixes of files whose fields have types


@dataclass(frozen=True, repr=False, eq=False)
class Piece:
    """Some rows of a file as columns of canonical texts, empty where missing, and the line on which each ends."""

    file: str
    frame: polars.DataFrame
    lines: Indices


def _refuse(flaw: BadData) -> None:
    raise BadData(f"{flaw.detail}: a field that holds the separator needs quotes around it")


def pieces(
    path: Path, layout: Layout, columns: frozenset[str], broken: Callable[[BadData], None] = _refuse
) -> Iterator[Piece]:
    """Yield the given columns of a file, piece by piece.

    ``broken`` is called with the error of each row that has a wrong number of fields; it raises by default, else the
    row is skipped. BadData if the file is missing, cut off or corrupt, not in its encoding, or lacks a column.
    """
    path = resolve(path)
    with _plain_errors(path):
        yield from _typed(path, layout, columns) if is_typed(path) else _text(path, layout, columns, broken)


def columns_of(path: Path, layout: Layout) -> list[str]:
    """Return the names of a file's columns, in its order; errors as :func:`pieces`."""
    path = resolve(path)
    if not is_typed(path):
        return list(layout.columns) or header_of(path, layout)
    with _plain_errors(path):
        return _names(path, layout)


def header_of(path: Path, layout: Layout) -> list[str]:
    """Return the first row of a text file, with stripped fields; an empty list if there is none; errors as above."""
    path = resolve(path)
    with _plain_errors(path), plain(path) as stream:
        return _header(_rows(path.name, stream, layout))


def _header(rows: Iterator[tuple[int, list[str]]]) -> list[str]:
    return [name.strip() for name in next(rows, (0, []))[1]]


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise BadData(f"{path.name}: there is no such file in {path.parent}") from None
    except CORRUPT:
        raise BadData(f"{path.name}: the compressed file is cut off or corrupt") from None
    except OSError as error:
        raise BadData(f"{path.name}: cannot be read: {error.strerror}") from None


def _lines(name: str, stream: BufferedIOBase, layout: Layout) -> Iterator[str]:
    # Skipped lines become blank, so that line numbers remain those of the file.
    # A byte order mark is at the beginning, and may also be where another file was appended.
    numbered = enumerate(_decoded(name, stream, layout.encoding), start=1)
    for number, text in ((number, text.removeprefix("\ufeff")) for number, text in numbered):
        if "\0" in text:
            flaw = "holds a byte that is 0, as damaged files do and text in UTF-16: save the file as CSV in UTF-8"
            raise BadData(f"{name}: line {number} {flaw}")
        comment = layout.comment is not None and text.startswith(layout.comment)
        yield "\n" if comment or number <= layout.skip_lines else text


def _decoded(name: str, stream: BufferedIOBase, encoding: str) -> Iterator[str]:
    if encoding != "utf-8":
        number = 0
        binary: Any = stream
        try:
            with TextIOWrapper(binary, encoding, newline="\n") as lines:
                for text in lines:
                    number += 1
                    yield text
        except UnicodeError:
            where = f"below line {max(1, number)}"
            raise BadData(f"{name}: {where}: not {encoding} text: give another layout.encoding") from None
        return
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise BadData(f"{name}: {_no_text(number, line)}") from None


def _no_text(number: int, line: bytes) -> str:
    if number == 1 and line.startswith(b"PAR1"):
        return "is a Parquet file by its first bytes: give it a name that ends in .parquet"
    if number == 1 and line.startswith(b"PK\x03\x04"):
        return "is a spreadsheet or an archive by its first bytes: save the table as CSV in UTF-8"
    wide = number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff")
    kind, other = ("UTF-16 text, not UTF-8", "utf-16") if wide else ("not UTF-8 text", "windows-1252")
    return f"line {number} is {kind}: save the file as CSV in UTF-8, or name its encoding, as layout.encoding: {other}"


def _text(path: Path, layout: Layout, columns: frozenset[str], broken: Callable[[BadData], None]) -> Iterator[Piece]:
    import polars

    with plain(path) as stream:
        rows = _rows(path.name, stream, layout)
        names = list(layout.columns) or _header(rows)
        if len(names) < 2:
            _check_header(path.name, names, layout)
        places = {name: names.index(name) for name in _present(path.name, columns, names)}
        blocks = iter(lambda: list(islice(rows, PIECE)), [])
        for block in chain([next(blocks, [])], blocks):  # a file without rows is one empty piece
            for line, row in block:
                if len(row) != len(names):
                    flaw = f"has {len(row)} fields where there are {len(names)} columns"
                    broken(BadData(f"{path.name}: line {line} {flaw}"))
            good_rows = [(line, row) for line, row in block if len(row) == len(names)]
            fields = {name: [row[place] for _, row in good_rows] for name, place in places.items()}
            texts = {name: polars.Series(column, dtype=polars.String) for name, column in fields.items()}
            frame = _canonical(texts, layout)
            yield Piece(path.name, frame, np.array([line for line, _ in good_rows], dtype=np.int64))


def _check_header(name: str, names: list[str], layout: Layout) -> None:
    if not names:
        raise BadData(f"{name}: there is no header: the file is empty, and its first line must name the columns")
    other = next((mark for mark in _SEPARATORS if mark in names[0] and mark != layout.separator), None)
    if other is not None:
        raise BadData(
            f"{name}: line 1 is one field where it is divided by {layout.separator!r}: say how it is divided, as "
            f"layout.separator: {json.dumps(other)}"
        )


def _rows(name: str, stream: BufferedIOBase, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(max(_LONGEST, csv.field_size_limit()))
    lines = _lines(name, stream, layout)
    reader = csv.reader(lines, delimiter=layout.separator, skipinitialspace=True, strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            many = "" if reader.line_num == begins else f" (its row goes on to line {reader.line_num})"
            raise BadData(f"{name}: line {begins} {_malformed(str(error), many)}") from None
        if row is None:
            return
        if row not in ([], [""]):
            yield reader.line_num, row


def _malformed(error: str, many: str) -> str:
    if "new-line character" in error:
        return "has a carriage return inside a row, as files of old Macintosh programs: save it with line feeds"
    if "field limit" in error:
        return f"has a field of more than {_LONGEST:,} characters{many}: a quote without an end, or no table"
    flaw = "is not well-formed CSV: a quote without an end, or text behind one"
    return f"{flaw}{many}; a quote inside a field is written twice"


def _typed(path: Path, layout: Layout, columns: frozenset[str]) -> Iterator[Piece]:
    import polars

    names = _present(path.name, columns, _names(path, layout))
    if _is_parquet(path):
        # A frame without columns has no rows: if no column is wanted, read row numbers instead.
        with _of_parquet(path):
            frame = polars.scan_parquet(path).select(names or [polars.int_range(polars.len())]).collect()
    else:
        frame = read_arrays(path, layout.columns, names)
    yield from typed_pieces(path.name, frame, columns, layout)


def _names(path: Path, layout: Layout) -> list[str]:
    import polars

    if not _is_parquet(path):
        return list(_columns(path.name, _arrays(path), layout.columns))
    with _of_parquet(path):
        return list(polars.read_parquet_schema(path))


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


@contextmanager
def _of_parquet(path: Path) -> Iterator[None]:
    import polars

    if path.is_dir():
        raise BadData(f"{path.name}: is a folder: name the files in it, or write them as one file")
    try:
        yield
    except polars.exceptions.PolarsError:
        raise BadData(f"{path.name}: not a readable Parquet file") from None


def is_typed(path: Path) -> bool:
    """Return whether a file's fields have types."""
    return path.suffix.lower() in _TYPED


def typed(name: str, table: Any, columns: frozenset[str], layout: Layout) -> Piece:
    """Return the given columns of a table whose fields have types: a frame of polars or pandas, or lists by column.

    Only the layout's ``decimal`` and ``thousands`` are used.

    BadData if a column is missing, occurs twice, or has no texts (:func:`common.data.columns.canonical_texts`).
    """
    names = _present(name, columns, list(getattr(table, "columns", table)))
    try:
        texts = _canonical({column: table[column] for column in names}, layout)
    except BadData as error:
        raise BadData(f"{name}: {error.detail}") from None
    return Piece(name, texts, np.arange(1, 1 + len(texts), dtype=np.int64))


def typed_pieces(name: str, table: Any, columns: frozenset[str], layout: Layout) -> Iterator[Piece]:
    """Yield the given columns of a frame of polars or pandas, piece by piece, at least one; errors as :func:`typed`."""
    for start in range(0, max(len(table), 1), PIECE):
        rows = getattr(table, "iloc", table)[start : start + PIECE]
        yield Piece(name, typed(name, rows, columns, layout).frame, np.arange(start + 1, start + 1 + len(rows)))


def _canonical(columns: Mapping[str, Any], layout: Layout) -> polars.DataFrame:
    import polars

    from common.data.columns import canonical_texts

    texts = {name: canonical_texts(pointed(column, layout), name) for name, column in columns.items()}
    return polars.DataFrame({name: column.fill_null("") for name, column in texts.items()})


def pointed(column: Any, layout: Layout) -> Any:
    """Return a column with numbers in texts rewritten with a decimal point and no thousands; others are unchanged."""
    import polars

    texts_of_polars = (polars.String, polars.Categorical, polars.Enum)
    if layout.plain or (isinstance(column, polars.Series) and column.dtype not in texts_of_polars):
        return column
    if isinstance(getattr(column, "dtype", None), np.dtype) and column.dtype.kind not in "OUS":
        return column
    if not isinstance(column, polars.Series):
        return [layout.point(value) if isinstance(value, str) else value for value in column]
    texts = column.cast(polars.String)
    odd = texts.filter(texts.str.contains(r"[0-9]")).unique()
    changed = {old: new for old in odd if (new := layout.point(old)) != old}
    return texts.replace(list(changed), list(changed.values())) if changed else texts


_NAMED = 10  # columns that a message names


def _present(name: str, columns: frozenset[str], names: list[str]) -> list[str]:
    twice = sorted(name for name in columns if names.count(name) > 1)
    if twice:
        raise BadData(
            f"{name}: column {twice[0]!r} is there {names.count(twice[0])} times: rename all but the one meant"
        )
    absent = sorted(columns - set(names))
    if absent:
        missing = " and no column ".join(repr(column) for column in absent[:_NAMED])
        more = f" (and {len(absent) - _NAMED} more)" if len(absent) > _NAMED else ""
        raise BadData(f"{name}: has no column {missing}{more}; its {len(names)} columns are named otherwise")
    return sorted(columns)


CORRUPT = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error)  # of a compressed file


def resolve(path: Path) -> Path:
    """Return the path itself if it exists, else that of the compressed file beside it if there is one."""
    compressed = (path.with_name(path.name + suffix) for suffix in (".xz", ".gz"))
    return path if path.exists() else next((p for p in compressed if p.exists()), path)


def plain(path: Path) -> BufferedIOBase:
    """Open a file for reading its uncompressed content."""
    unpack: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix.lower())
    return path.open("rb") if unpack is None else BufferedReader(unpack(path), 1 << 16)


MOST = 1 << 24  # bytes of text of the largest file that is cached; larger files are read each time
FILES = 4  # number of files, or choices of columns, in the cache: those that were used last
SETTLED = 2.0  # seconds since its change before a file is cached: two changes within a clock tick look alike


def cached_pieces(path: Path, layout: Layout, columns: frozenset[str]) -> Iterator[Piece]:
    """Yield the given columns of a file, as :func:`pieces` does; they are cached until the file changes."""
    try:
        status = path.stat()
    except OSError:
        status = None
    cached = None
    if status is not None and time.time() - status.st_ctime >= SETTLED:  # programs cannot set st_ctime
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        cached = _cached_pieces(path.absolute(), state, layout, columns)
    yield from pieces(path, layout, columns) if cached is None else cached


@lru_cache(maxsize=FILES)
def _cached_pieces(
    path: Path, state: tuple[int, ...], layout: Layout, columns: frozenset[str]
) -> tuple[Piece, ...] | None:
    all_pieces, size = [], 0
    for piece in pieces(path, layout, columns):
        size += int(piece.frame.estimated_size()) + piece.lines.nbytes
        if size > MOST:
            return None
        piece.lines.flags.writeable = False
        all_pieces.append(piece)
    return tuple(all_pieces)


def read_arrays(path: Path, names: Tokens, selection: Collection[str]) -> polars.DataFrame:
    """Return columns of a NumPy file; BadData if its arrays are damaged, pickled or of another form.

    Args:
        path: ``.npz`` with one array of shape (rows,) per column, by its name; ``.npy`` with a structured array of
            shape (rows,), whose fields are the columns; or either with a single array of shape (rows, columns). Arrays
            contain numbers, booleans or texts.
        names: The columns' names, for an array that has none.
        selection: The columns to return; if empty, one column of row numbers.
    """
    import polars

    chosen = selection or list(_columns(path.name, _arrays(path), names))[:1]
    every = _columns(path.name, _arrays(path, chosen), names)
    columns = {name: array for name, array in every.items() if name in chosen}
    lengths = {array.shape for array in columns.values()}
    if len(lengths) != 1 or len(shape := lengths.pop()) != 1:
        raise BadData(f"{path.name}: every column must be an array of shape (rows,), all of the same length")
    if not selection:
        return polars.DataFrame({"row": np.arange(*shape)})
    return polars.DataFrame({name: _series(path.name, name, array) for name, array in columns.items()})


def _arrays(path: Path, selection: Collection[str] = ()) -> dict[str, AnyArray]:
    """Return a file's arrays by name; if there are several, only those in ``selection`` are read, others are empty."""
    # Open the file here, since NumPy does not close a file that it cannot read.
    try:
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if path.suffix.lower() == ".npy" and isinstance(archive, np.ndarray):
                return {"": archive}
            several = len(archive.files) > 1
            return {name: archive[name] if not several or name in selection else np.empty(0) for name in archive.files}
    except (ValueError, EOFError, TypeError, AttributeError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise BadData(f"{path.name}: not a readable NumPy file of numbers, booleans and texts") from None


def _columns(file: str, arrays: Mapping[str, AnyArray], names: Tokens) -> Mapping[str, AnyArray]:
    single = next(iter(arrays.values())) if len(arrays) == 1 else None
    if single is not None and single.dtype.names:
        return {name: single[name] for name in single.dtype.names}
    if single is not None and single.ndim == 2:
        if len(names) != single.shape[1]:
            raise BadData(
                f"{file}: a matrix of {single.shape[1]} columns without names, layout.columns has {len(names)} for them"
            )
        return {name: single[:, place] for place, name in enumerate(names)}
    return arrays


def _series(file: str, name: str, array: AnyArray) -> polars.Series:
    from common.data.columns import series_of

    if array.dtype.kind not in "biufSU":
        raise BadData(f"{file}: column {name!r} holds neither numbers nor booleans nor texts, but {array.dtype}")
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise BadData(f"{file}: column {name!r} is not UTF-8 text") from None
    return series_of(name, array)
