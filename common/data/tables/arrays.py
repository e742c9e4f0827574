"""NumPy files as tables: named columns, or one matrix whose columns the layout names. Data only, never pickles."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import polars

from common.core.arrays import AnyArray
from common.core.errors import BadData
from common.data.tables.source import Tokens

SUFFIXES = (".npy", ".npz")


def names_of_arrays(path: Path, names: Tokens) -> list[str]:
    """Return the names of a NumPy file's columns; parameters and errors are those of :func:`read_arrays`."""
    return list(_columns(path.name, _arrays(path), names))


def read_arrays(path: Path, names: Tokens, wanted: Collection[str]) -> polars.DataFrame:
    """Return columns of a NumPy file.

    Args:
        path: ``.npz`` with one array of shape (rows,) a column, under its name; ``.npy`` with a structured array of
            shape (rows,), whose fields are the columns; or either with a single array of shape (rows, columns).
        names: The columns' names, for an array that has none.
        wanted: The columns to return; what the others hold does not matter. None of them: a column of the rows'
            numbers.

    Raises:
        BadData: If it is no such file: damaged, pickled objects, arrays of other shapes, of other types than numbers,
            booleans and texts, or of different lengths.
    """
    chosen = wanted or names_of_arrays(path, names)[:1]
    every = _columns(path.name, _arrays(path, chosen), names)
    columns = {name: array for name, array in every.items() if name in chosen}
    lengths = {array.shape for array in columns.values()}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1:
        raise BadData(f"{path.name}: every column must be an array of shape (rows,), all of the same length")
    if not wanted:
        return polars.DataFrame({"row": np.arange(*lengths.pop())})
    return polars.DataFrame([_series(path.name, name, array) for name, array in columns.items()])


def _arrays(path: Path, wanted: Collection[str] = ()) -> dict[str, AnyArray]:
    """Return a file's arrays by name; of several, only those that are wanted are read, the others are empty."""
    # NumPy leaves a file open that it opened and cannot read.
    try:
        with path.open("rb") as stream:
            found = np.load(stream, allow_pickle=False)
            if path.suffix.lower() == ".npy" and isinstance(found, np.ndarray):
                return {"": found}
            several = len(found.files) > 1
            return {name: found[name] if not several or name in wanted else np.empty(0) for name in found.files}
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
    if array.dtype.kind not in "biufSU":
        raise BadData(f"{file}: column {name!r} holds neither numbers nor booleans nor texts, but {array.dtype}")
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise BadData(f"{file}: column {name!r} is not UTF-8 text") from None
    if array.dtype.kind == "U":
        return polars.Series(name, array.tolist(), polars.String)
    wide = np.float64 if array.dtype == np.float16 else array.dtype.newbyteorder("=")
    return polars.Series(name, np.ascontiguousarray(array, dtype=wide))
