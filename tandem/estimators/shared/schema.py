"""What is publicly known of the columns: never taken from the data, as every bound would give something away."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.core.errors import BadFit
from common.data.tables import Label, Number, Schema, TableSource, parse_schema, read_schema

LABEL = "__label__"
"""Column in which the class of a person travels to the parties."""
CLASSES = Label(column=LABEL, positive=("positive",), negative=("negative",))


def public_schema(schema: Any) -> Schema:
    """Return a schema that was given as a mapping or as the path of a YAML file.

    Raises
    ------
    BadScenario
        If it cannot be read, or a key is wrong.
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

    Parameters
    ----------
    bounds
        One pair (low, high) for all columns, a pair for each in order, or a mapping from each column's name to a pair.
    columns
        Their names.
    norm
        Public bound on the length of a feature vector, or None.

    Raises
    ------
    BadFit
        If a pair is missing, or is none with low < high.
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

    Raises
    ------
    BadFit
        If it is none.
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
