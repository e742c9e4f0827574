"""What is publicly known of the columns, and values beyond public bounds. Bounds are never taken from private data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from common.core.arrays import AnyArray
from common.core.errors import BadFit
from common.data.tables import Label, Number, Schema, TableSource, parse_schema, read_schema
from common.data.tables.frames import is_file, is_frame
from tandem.estimators.frames import check_once, doubles, numbers

LABEL = "__label__"
"""Column in which the class of a person travels to the parties."""
CLASSES = Label(column=LABEL, positive=("positive",), negative=("negative",))


def public_schema(schema: Any) -> Schema:
    """Return a schema that was given as a mapping or as the path of a YAML file.

    Raises:
        BadScenario: If it cannot be read, or a key is wrong.
    """
    if isinstance(schema, Schema):
        return schema
    return read_schema(schema) if isinstance(schema, str | Path) else parse_schema(schema)


def described(schema: Schema, file: str, *further: Number) -> TableSource:
    """Return the description of a Parquet file with a schema's columns, :data:`LABEL`, and further numbers behind."""
    return TableSource(
        files=(file,),
        layout=schema.layout,
        label=CLASSES,
        features=(*schema.features, *further),
        norm=schema.norm,
    )


def numeric_schema(bounds: Any, columns: Sequence[str], norm: float | None) -> Schema:
    """Return the schema of columns that all hold numbers; a missing one counts as the middle of its bounds.

    Args:
        bounds: One pair (low, high) for all columns, a pair for each in order, or a mapping from each column's name to
            a pair.
        columns: Their names.
        norm: Public bound on the length of a feature vector, or None.

    Raises:
        BadFit: If a pair is missing, or is none with low < high.
    """
    if norm is not None and not (isinstance(norm, int | float) and 0.0 < norm < math.inf):
        raise BadFit(f"norm must be a positive number or None, found {norm!r}")
    pairs = _pairs(bounds, columns)
    features = tuple(
        Number(column=name, low=low, high=high, fill=low + 0.5 * (high - low))
        for name, (low, high) in zip(columns, pairs, strict=True)
    )
    return Schema(features=features, norm=norm)


def bounded(value: Any, what: str) -> tuple[float, float]:
    """Return a pair low < high of finite numbers.

    Raises:
        BadFit: If it is none.
    """
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise BadFit(f"{what} must be a pair (low, high) of public numbers, found {value!r}") from None
    if not -math.inf < low < high < math.inf:
        raise BadFit(f"{what} must have low < high, both finite, found ({low:g}, {high:g})")
    return low, high


def _pairs(bounds: Any, columns: Sequence[str]) -> list[tuple[float, float]]:
    if isinstance(bounds, Mapping):
        absent = [name for name in columns if name not in bounds]
        if absent:
            raise BadFit(f"bounds: column {absent[0]!r} has none; give a public (low, high) for every column")
        return [bounded(bounds[name], f"bounds of column {name!r}") for name in columns]
    try:
        several = len(bounds[0]) == 2
    except (TypeError, IndexError, KeyError):
        several = False
    if not several:
        return [bounded(bounds, "bounds")] * len(columns)
    if len(bounds) != len(columns):
        raise BadFit(f"bounds: {len(bounds)} pairs for {len(columns)} columns; give one pair for all, or one for each")
    return [bounded(pair, f"bounds of column {name!r}") for pair, name in zip(bounds, columns, strict=True)]


RESPONSE = "__response__"
"""Column in which the number to predict travels to the parties."""
FEW = 0.01
"""Share of values beyond the bounds up to which nothing is said, as tails may be cut off by intention; and share of the
responses' variance that their clipping may cost.
"""


class PublicClippingWarning(UserWarning):
    """Values of the public sample are beyond the declared bounds, to which everybody's values are clipped."""


def public_pairs(X: Any, columns: Sequence[str]) -> list[tuple[float, float]]:
    """Return a pair (low, high) for each column: the least and the greatest value of the public sample.

    Args:
        X: The public sample's features: an array of shape (m, d), or a frame with these columns.
        columns: Their d names.

    Raises:
        BadFit: If it has other columns, or holds what is no number.
    """
    if is_file(X):
        raise BadFit("records in a file need schema=, which says what its columns are; found none")
    if is_frame(X):
        check_once(X, columns)
        absent = [name for name in columns if name not in X.columns]
        if absent:
            raise BadFit(f"the public sample has no column {absent[0]!r}, which X has")
        return [widened(numbers(X[name], name, "the public sample")) for name in columns]
    try:
        matrix = np.asarray(doubles(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadFit):
            raise
        raise BadFit("the public sample must hold numbers only: leave the column out, or give schema=") from None
    if matrix.ndim != 2 or matrix.shape[1] != len(columns):
        found = f"{matrix.shape[1]} features" if matrix.ndim == 2 else f"the shape {matrix.shape}"
        raise BadFit(f"the public sample has {found}, and X has {len(columns)} features: give the same")
    return [widened(column) for column in matrix.T]


def widened(values: AnyArray) -> tuple[float, float]:
    """Return the least and the greatest finite value, moved apart by their size, 1 at least, where they are equal."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    if low < high:
        return low, high
    half = 0.5 * max(1.0, abs(low))
    return low - half, high + half


def clipped_shares(public: polars.DataFrame, source: TableSource) -> dict[str, float]:
    """Return the share of a public sample's values that are beyond their bounds, by column, where there are any.

    The response is called ``response``.
    """
    found = {}
    for feature in source.features:
        if not isinstance(feature, Number):
            continue
        values = public[feature.column].cast(polars.Float64, strict=False).to_numpy()
        share = float(np.mean((values < feature.low) | (values > feature.high)))
        if share > 0.0:
            found["response" if feature.column == RESPONSE else feature.column] = share
    return found


def response_cost(responses: AnyArray, low: float, high: float) -> float:
    """Return the mean square of what clipping to [low, high] takes away, in shares of the responses' variance."""
    square = float(np.mean((responses - np.clip(responses, low, high)) ** 2))
    if square == 0.0:
        return 0.0
    variance = float(responses.var())
    return square / variance if variance > 0.0 else np.inf


def warning_text(shares: Mapping[str, float], cost: float) -> str | None:
    """Return what to say, or None: of responses and of features of which more than :data:`FEW` is beyond the bounds.

    Args:
        shares: As of :func:`clipped_shares`.
        cost: As of :func:`response_cost`: responses are spoken of where it is above :data:`FEW`, too.
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
