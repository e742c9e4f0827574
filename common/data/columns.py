"""Columns of tables, of any library and type, as canonical texts (:mod:`common.data.spelling`).

Only code that reads a table imports this module, since polars takes a tenth of a second to load.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars

from common.core.errors import BadData
from common.data.spelling import SPACES, NoText, canonical, plain_text

_SPELLED = (
    r"^(?:[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}[ T].*"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}\..*|(?i:true|false))$"
)
"""Texts that may not be canonical."""
_CANONICAL = (
    r"^(?:0|-?[1-9][0-9]{0,39}(?:\.[0-9]*[1-9])?|-?0\.0{0,20}[1-9](?:[0-9]*[1-9])?|true|false"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:(?:0[1-9]|[1-5][0-9]))$"
)
"""Texts that are certainly canonical; there are others."""
_DECIMAL = r"^-?[1-9][0-9]{0,39}\.[0-9]*$"  # numbers that are canonical up to trailing zeros after the point
_REMEDIES = {
    "durations": "convert it to a number, such as its seconds",
    "lists": "give each entry a column of its own",
    "structs": "give each field a column of its own",
    "bytes that are no UTF-8 text": "convert it to numbers or to UTF-8 text",
}
_NO_TEXTS = {"List": "lists", "Array": "lists", "Struct": "structs", "Duration": "durations"}
_REMEDY = "convert it to numbers, texts, booleans or dates"


def canonical_texts(column: Any, name: str = "") -> polars.Series:
    """Return the canonical texts of a column of polars, pandas or NumPy, shape (rows,), or of a sequence of values.

    A missing value is null. Each text depends on its own value only, not on the column's type, its other values or the
    library. A value without a text, such as a list, raises BadData, which names column and type.
    """
    texts = _texts(column if isinstance(column, polars.Series) else series_of(name, column), name).rename(name)
    texts = texts.str.strip_chars(SPACES)
    return _respelled(texts.set(texts == "", None))


def _typed_text(value: Any, name: str) -> str:
    """Return one value of a column as an exact text; raises as :func:`canonical_texts` does."""
    try:
        return plain_text(value)
    except NoText as error:
        raise _unsupported(name, str(error)) from None


def _respelled(texts: polars.Series) -> polars.Series:
    # Compiled code handles most texts; Python handles each distinct remaining one once.
    odd = texts.str.contains(_SPELLED) & ~texts.str.contains(_CANONICAL)
    places = odd.fill_null(value=False).arg_true()
    if not len(places):
        return texts
    respelled = texts.gather(places)
    decimal = respelled.str.contains(_DECIMAL)
    respelled = respelled.zip_with(~decimal, respelled.str.strip_chars_end("0").str.strip_chars_end("."))
    rest = respelled.filter(~decimal).unique()
    spellings = dict(zip(rest, map(canonical, rest), strict=True))
    changed = {old: new for old, new in spellings.items() if old != new}
    if changed:
        respelled = respelled.replace(list(changed), list(changed.values()))
    return texts.scatter(places, respelled)


def _texts(column: polars.Series, name: str) -> polars.Series:
    kind = column.dtype
    if kind == polars.String:
        return column
    if kind.is_float():
        numbers = column.cast(polars.Float64).fill_nan(None)
        integral = ((numbers == numbers.floor()) & (numbers.abs() < 2.0**53)).fill_null(value=False)
        integers = numbers.set(~integral, None).cast(polars.Int64).cast(polars.String)
        return integers if integral.all() else integers.zip_with(integral, numbers.cast(polars.String))
    if isinstance(kind, polars.Datetime):
        zone = "" if kind.time_zone is None else "Z"
        column = column if kind.time_zone is None else column.dt.convert_time_zone("UTC")
        return _shortened(column.dt.strftime("%Y-%m-%dT%H:%M:%S%.9f")) + zone
    if kind == polars.Time:
        return _shortened(column.dt.strftime("%H:%M:%S%.9f"))
    if kind == polars.Object:
        return polars.Series([_typed_text(value, name) for value in column], dtype=polars.String)
    if (what := _NO_TEXTS.get(kind.base_type().__name__)) is not None:
        raise _unsupported(name, what)
    try:
        return column.cast(polars.String)
    except polars.exceptions.PolarsError:
        raise _unsupported(name, "bytes that are no UTF-8 text" if kind == polars.Binary else str(kind)) from None


def _shortened(times: polars.Series) -> polars.Series:
    return times.str.strip_chars_end("0").str.strip_suffix(".")


def series_of(name: str, column: Any) -> polars.Series:
    """Return a column of NumPy or pandas, shape (rows,), or a sequence of values; errors: :func:`canonical_texts`."""
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise BadData(f"the column name {name!r} holds a half of a character (a surrogate): rename it")
    if isinstance(column, np.ma.MaskedArray):
        column = column.tolist()
    if isinstance(column, Sequence) and not isinstance(column, str | bytes):
        return _from_list(name, column)
    # An array of an extension type has usable values only as objects.
    plain = isinstance(getattr(column, "dtype", None), np.dtype) or not hasattr(column, "astype")
    array = np.asarray(column if plain else column.astype(object))
    if array.ndim != 1:
        raise BadData(f"column {name!r} must have the shape (rows,), found {array.shape}")
    kind = array.dtype.kind
    if kind == "f" and array.dtype.itemsize != 4:
        return polars.Series(name, np.ascontiguousarray(array, dtype=np.float64))
    if kind in "biuf":
        return polars.Series(name, np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))
    if kind == "M":
        unit, many = np.datetime_data(array.dtype)
        if unit in ("ps", "fs", "as"):
            raise _unsupported(name, f"times in {unit}")
        exact = unit if unit in ("ms", "us", "ns") and many == 1 else "ns" if unit == "ns" else "us"
        return polars.Series(name, array.astype(f"datetime64[{exact}]"))
    if kind in "mcV":
        raise _unsupported(name, {"m": "durations", "c": "complex numbers"}.get(kind, str(array.dtype)))
    return _from_list(name, array.tolist())


def _from_list(name: str, values: Sequence[Any]) -> polars.Series:
    texts = [value if type(value) is str else _typed_text(value, name) for value in values]
    try:
        return polars.Series(name, texts, polars.String)
    except UnicodeEncodeError:
        raise _unsupported(name, "texts with halves of characters (surrogates)") from None


def _unsupported(name: str, what: str) -> BadData:
    return BadData(f"column {name!r} holds {what}: {_REMEDIES.get(what, _REMEDY)}, or leave the column out")
