"""Convert people's records in any form (arrays, frames, files) into one kind of frame, row by row.

A schema states what is publicly known about the columns; bounds are never taken from private data. BadFit if a
parameter or data are wrong, BadData if a file cannot be read or a column holds values without a text form.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from common.core.arrays import AnyArray, Floats
from common.core.errors import BadData, BadFit
from common.data.columns import canonical_texts
from common.data.files import pieces, pointed
from common.data.loading import is_file, is_frame, numbers_and_wrong
from common.data.schema import Schema, parse_schema, read_schema
from common.data.spelling import canonical
from common.data.tables import Category, Label, Layout, Number, TableSource, check_missing
from common.lifetime.charging import GivenPeople
from common.lifetime.recognition import rows_of_data


def given_people(data: Any, label: str | None, id_column: str | None, layout: Layout) -> GivenPeople:
    """Return people as they were given, all columns except the label, by which other runs recognise them.

    ``label`` is the label's column, None if it is not in the data; ``id_column`` identifies people, None if there is
    none.
    """
    frame, named = rows_of_data(data, label, layout)
    if id_column is not None and id_column not in frame.columns:
        raise BadFit(f"there is no column {id_column!r} in the data, which is named as the id of its people")
    return GivenPeople(frame, named, id_column, (Path(data),) if is_file(data) else ())


def chosen_columns(data: Any, columns: Sequence[str], layout: Layout) -> dict[str, Any]:
    """Return the named columns of a file, a frame, or an array or list with exactly these columns in this order."""
    check_collected(data)
    if is_file(data):
        parts = [piece.frame for piece in pieces(Path(data), layout, frozenset(columns))]
        if not parts:
            raise BadFit(f"{Path(data).name}: there is no row below its header")
        frame = polars.concat(parts)
        return {name: frame[name] for name in columns}
    if is_frame(data):
        check_once(data, columns)
        absent = [name for name in columns if name not in data.columns]
        if absent:
            raise BadFit(f"there is no column {_named(absent)} in the data, which the schema names")
        return {name: pointed(data[name], layout) for name in columns}
    matrix = _matrix(data)
    if matrix.ndim != 2 or matrix.shape[1] != len(columns):
        raise BadFit(
            f"the schema names {len(columns)} columns, found an array of shape {matrix.shape}: give a frame with these "
            f"columns, or an array of them in this order: {', '.join(columns)}"
        )
    return {name: pointed(matrix[:, index], layout) for index, name in enumerate(columns)}


def check_collected(X: Any) -> None:
    """Refuse a lazy frame of polars, whose query has not been run."""
    if isinstance(X, polars.LazyFrame):
        raise BadFit("found a polars LazyFrame, which holds no rows yet: collect it first, with .collect()")


def labelled(sample: Any, y: Any, name: str) -> tuple[Any, Any]:
    """Return other people and their own labels; the array ``y`` has labels of the curator's people only.

    ``sample`` is (X, y), or X alone if ``y`` is the name of a column, or None and the schema names the label; ``name``
    is that of the parameter.
    """
    if isinstance(sample, tuple):
        if len(sample) != 2:
            raise BadFit(f"{name} must be a pair (X, y), found a tuple of {len(sample)}")
        return sample[0], sample[1]
    first = sample[0] if isinstance(sample, list) and len(sample) == 2 else None
    pair = is_frame(first) or getattr(first, "ndim", 1) == 2
    if pair or not (y is None or isinstance(y, str)):
        form = "a list" if isinstance(sample, list) else "X alone"
        raise BadFit(f"the {name} needs labels: give (X, y), a tuple, as in {name}=(X, y); found {form}")
    return sample, y


def doubles(X: Any) -> Any:
    """Return people without a schema as doubles, NaN for a missing value; each field is converted by itself.

    A frame of polars keeps its columns' names, all else becomes an array. If ``X`` is no frame, array or list, or an
    array of values without a text form, return ``X`` itself, which scikit-learn refuses with its own message.
    """
    check_collected(X)
    if is_frame(X):
        names = list(X.columns)
        check_once(X, names)
        columns = {name: numbers(X[name], str(name)) for name in names}
        named = any(isinstance(name, str) for name in names)
        if named and not all(isinstance(name, str) for name in names):
            raise TypeError("columns are named by texts and by other things: give them texts only, or no names at all")
        return polars.DataFrame(columns) if named else np.column_stack(list(columns.values())) if columns else X
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "biuf":
        return np.ma.filled(X.astype(np.float64), np.nan)
    if not isinstance(X, list | tuple) and getattr(getattr(X, "dtype", None), "kind", "f") not in "OUSMm":
        return X
    matrix = _matrix(X)
    if matrix.ndim != 2 or not matrix.size:
        return X
    try:
        return np.column_stack([numbers(matrix[:, index], f"x{index}") for index in range(matrix.shape[1])])
    except BadData:
        return X


def numbers(column: Any, name: str, what: str = "X") -> Floats:
    """Return a column as doubles, NaN for a missing value; booleans are 1 and 0. ``what`` names the parameter."""
    kind = getattr(column, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return np.asarray(column, dtype=np.float64)
    texts = canonical_texts(column, name).replace(["true", "false"], ["1", "0"]).fill_null("")
    values, wrong = numbers_and_wrong(texts, Layout())
    if wrong.any():
        raise BadFit(
            f"{what} must hold numbers only, found another value in column {name!r}: leave the column out, or give "
            f"schema="
        )
    return values


def as_output(kind: str, X: Any, values: AnyArray, columns: Iterable[Any] = ()) -> Any:
    """Return predictions for X in the form set by ``set_output``; ``columns`` are those of a table, shape (n, C)."""
    table = values.ndim > 1
    if kind == "polars":
        return polars.DataFrame(values, schema=list(map(str, columns))) if table else polars.Series(values)
    if kind == "pandas":
        import pandas

        index = X.index if isinstance(X, pandas.DataFrame) else None
        return pandas.DataFrame(values, index, list(columns)) if table else pandas.Series(values, index)
    return values


def target_array(y: Any) -> Any:
    """Return classes or responses, those of a pandas type as an array of NumPy; no value may be missing."""
    kind = getattr(y, "dtype", None)
    if y is None or (isinstance(kind, np.dtype) and kind.kind not in "OM"):
        return y
    try:
        missing = canonical_texts(y, "y").null_count()
    except BadData:  # neither labels nor numbers, or no column: scikit-learn refuses it
        return y
    if missing:
        raise BadFit("y has missing values: leave these people out")
    return np.array(y.astype(object).tolist()) if hasattr(y, "iloc") or hasattr(kind, "na_value") else y


def check_once(frame: Any, columns: Sequence[Any]) -> None:
    """Refuse a frame that has one of the columns twice, since it is ambiguous which is meant."""
    names = list(frame.columns)
    twice = [name for name in columns if names.count(name) > 1]
    if twice:
        raise BadFit(f"column {twice[0]!r} is there {names.count(twice[0])} times: rename all but the one meant")


def _matrix(data: Any) -> AnyArray:
    """Return an array; the fields of a list of rows keep their types, where NumPy would convert all to one type."""
    if not isinstance(data, list | tuple):
        return np.asarray(data)
    try:
        return np.array(data, dtype=object)
    except ValueError:
        raise BadFit(
            f"found a {type(data).__name__} of parts that differ in length: give a row for each person"
        ) from None


LABEL = "__label__"  # column with a person's class for the parties, if it has no usable name of its own
CLASS = "__class__"  # the same for more than two classes
CLASSES = Label(column=LABEL, positive=("positive",), negative=("negative",))


def public_schema(schema: Any) -> Schema:
    """Return a schema given as a mapping or as the path of a YAML file."""
    if isinstance(schema, Schema):
        return schema
    return read_schema(schema) if isinstance(schema, str | Path) else parse_schema(schema)


def label_of(names: Iterable[Any], schema: Schema) -> Label:
    """Return the encoding of two classes, the negative one first: under their own names if these are unambiguous."""
    column = "label" if schema.label is None else schema.label.column
    negative, positive = (str(name) for name in names)
    if not (canonical(negative) and canonical(positive)):
        return CLASSES
    try:
        label = Label(column=LABEL if column in schema.columns else column, positive=(positive,), negative=(negative,))
        check_missing((), label, schema.layout)
    except ValueError:
        return CLASSES
    return label


def table_source(schema: Schema, file: str, *further: Number | Category, label: Label = CLASSES) -> TableSource:
    """Return the description of a Parquet file with a schema's columns, a label, and then further columns.

    Its texts are in canonical form already, however numbers were written in the original.
    """
    layout = schema.layout.model_copy(update={"decimal": ".", "thousands": None, "encoding": "utf-8"})
    return TableSource(
        files=(file,), layout=layout, label=label, features=(*schema.features, *further), norm=schema.norm
    )


def numeric_schema(bounds: Any, columns: Sequence[str], norm: float | None) -> Schema:
    """Return the schema of numeric columns; a missing value counts as the middle of its bounds.

    ``bounds`` are one pair (low, high) for all columns, a pair for each in order, or a mapping from each column's name.
    """
    if norm is not None and not (isinstance(norm, int | float) and 0.0 < norm < math.inf):
        raise BadFit(f"norm must be a positive number or None, found {norm!r}")
    pairs = _pairs(bounds, columns)
    features = tuple(
        Number(column=name, low=low, high=high, fill=low + 0.5 * (high - low))
        for name, (low, high) in zip(columns, pairs, strict=True)
    )
    return Schema(features=features, norm=norm)


def mapping(value: Any, what: str) -> dict[str, Any]:
    """Return a parameter that is a mapping, or None, as a dictionary."""
    if not isinstance(value, Mapping | None):
        raise BadFit(f"{what} must be a mapping, found {value!r:.80}")
    return dict(value or {})


def check_pair(value: Any, what: str) -> tuple[float, float]:
    """Return a pair low < high of finite numbers."""
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise BadFit(f"{what} must be a pair (low, high) of public numbers, found {value!r}") from None
    if not -math.inf < low < high < math.inf:
        raise BadFit(f"{what} must have low < high, both finite, found ({low:g}, {high:g})")
    if math.isinf(high - low):
        raise BadFit(f"{what} are farther apart than any number, found ({low:g}, {high:g}): give nearer ones")
    return low, high


def _named(columns: Sequence[Any]) -> str:
    names = ", ".join(map(repr, columns[:_LISTED]))
    return names if len(columns) <= _LISTED else f"{names} and {len(columns) - _LISTED} more"


_LISTED = 8  # most columns that one message names


def _pairs(bounds: Any, columns: Sequence[str]) -> list[tuple[float, float]]:
    if isinstance(bounds, Mapping):
        absent = [name for name in columns if name not in bounds]
        if absent:
            raise BadFit(f"bounds: {_named(absent)}: there are none; give a public (low, high) for every column")
        return [check_pair(bounds[name], f"bounds of column {name!r}") for name in columns]
    try:
        several = len(bounds[0]) == 2
    except (TypeError, IndexError, KeyError):
        several = False
    if not several:
        return [check_pair(bounds, "bounds")] * len(columns)
    if len(bounds) != len(columns):
        raise BadFit(f"bounds: {len(bounds)} pairs for {len(columns)} columns; give one pair for all, or one for each")
    return [check_pair(pair, f"bounds of column {name!r}") for pair, name in zip(bounds, columns, strict=True)]


RESPONSE = "__response__"  # column with the response for the parties
FEW = 0.01
"""Share of values beyond the bounds up to which there is no warning, since tails may be clipped by intention; and share
of the responses' variance that their clipping may cost.
"""


class PublicClippingWarning(UserWarning):
    """Values of the public sample are beyond the declared bounds, to which all values are clipped."""


def public_pairs(X: Any, columns: Sequence[str]) -> list[tuple[float, float]]:
    """Return a pair (low, high) for each column: the minimum and maximum of the public sample."""
    if is_file(X):
        raise BadFit("records in a file need schema=, which says what its columns are; found none")
    if is_frame(X):
        check_once(X, columns)
        absent = [name for name in columns if name not in X.columns]
        if absent:
            raise BadFit(f"the public sample has no column {_named(absent)}, which X has")
        return [finite_range(numbers(X[name], name, "the public sample")) for name in columns]
    try:
        matrix = np.asarray(doubles(X), dtype=np.float64)
    except BadFit:
        raise
    except (TypeError, ValueError):
        raise BadFit("the public sample must hold numbers only: leave the column out, or give schema=") from None
    if matrix.ndim != 2 or matrix.shape[1] != len(columns):
        shape = f"{matrix.shape[1]} features" if matrix.ndim == 2 else f"the shape {matrix.shape}"
        raise BadFit(f"the public sample has {shape}, and X has {len(columns)} features: give the same")
    return [finite_range(column) for column in matrix.T]


def finite_range(values: AnyArray) -> tuple[float, float]:
    """Return the minimum and maximum of the finite values; if equal, widened by their size, but at least by 1."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    if low < high:
        return low, high
    half = 0.5 * max(1.0, abs(low))
    return low - half, high + half


def clipped_shares(public: polars.DataFrame, source: TableSource) -> dict[str, float]:
    """Return the share of a public sample's values that are beyond their bounds, by column, if there are any.

    The response is called ``response``.
    """
    shares = {}
    for feature in source.features:
        if isinstance(feature, Number):
            share = share_beyond(public[feature.column], feature.low, feature.high, source.layout)
            if share > 0.0:
                shares["response" if feature.column == RESPONSE else feature.column] = share
    return shares


def share_beyond(values: polars.Series, low: float, high: float, layout: Layout) -> float:
    """Return the share of a column's values that are beyond their bounds; missing values are not beyond them."""
    if values.dtype.is_numeric():
        numbers = values.to_numpy()
    else:
        numbers, _ = numbers_and_wrong(values.fill_null(""), layout)
    return float(np.mean((numbers < low) | (numbers > high)))


def response_cost(responses: AnyArray, low: float, high: float) -> float:
    """Return the mean squared change by clipping to [low, high], as a share of the responses' variance."""
    square = float(np.mean((responses - np.clip(responses, low, high)) ** 2))
    if square == 0.0:
        return 0.0
    variance = float(responses.var())
    return square / variance if variance > 0.0 else np.inf


def warning_text(shares: Mapping[str, float], cost: float) -> str | None:
    """Return a warning about features and responses with a share above :data:`FEW` beyond the bounds, or None.

    ``shares`` are those of :func:`clipped_shares`, ``cost`` that of :func:`response_cost`; responses are also included
    if the cost is above :data:`FEW`.
    """
    sentences = []
    if max(shares.get("response", 0.0), cost) > FEW:
        sentences.append(
            f"{shares['response']:.1%} of the public sample's responses are beyond response_bounds: responses are "
            "clipped to them in learning and in the agents' answers, so estimate_ is the error for clipped responses, "
            "which may be 0 where predictions are far off"
        )
    features = {name: share for name, share in shares.items() if name != "response" and share > FEW}
    if features:
        worst = max(features, key=lambda name: features[name])
        sentences.append(
            f"more than {FEW:.0%} of the public sample is beyond its bounds in {len(features)} features, most in "
            f"{worst!r} ({features[worst]:.1%}): what is beyond is clipped"
        )
    if not sentences:
        return None
    return "; ".join(sentences) + ". Give wider bounds, or 'public' to take them from the public sample"
