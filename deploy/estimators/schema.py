"""What is publicly known of the columns: never taken from the data, as every bound would give something away."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from common import strictyaml
from common.errors import BadFit
from common.tables import Category, Label, Layout, Number, TableSource
from common.tables.source import Feature
from common.values import Value, explain

LABEL = "__label__"
"""Column in which the class of a person travels to the parties."""
CLASSES = Label(column=LABEL, positive=("positive",), negative=("negative",))


class Schema(Value):
    """A table's public description without its files.

    Attributes
    ----------
    features
        What becomes a feature, in order: see :class:`common.tables.Number` and :class:`common.tables.Category`.
    label
        The column with the class, and which of its texts are which, where labels are not given as ``y``.
    norm
        If given, longer feature vectors are shortened to this L2 norm.
    layout
        How text files are written.
    """

    features: tuple[Feature, ...] = Field(min_length=1)
    label: Label | None = None
    norm: float | None = Field(default=None, gt=0)
    layout: Layout = Layout()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are looked at for features, each once, in the order of the features."""
        return tuple(dict.fromkeys(feature.column for feature in self.features))

    @property
    def dimension(self) -> int:
        """Number of features that the model sees."""
        return sum(feature.width for feature in self.features)

    def source(self, file: str) -> TableSource:
        """Return the description of a file with these columns and :data:`LABEL`."""
        return TableSource(files=(file,), label=CLASSES, features=self.features, norm=self.norm)


def read_schema(schema: Any) -> Schema:
    """Return a schema from a mapping or from a YAML file.

    Raises
    ------
    BadFit
        If it cannot be read, or a key is wrong.
    """
    if isinstance(schema, Schema):
        return schema
    tree = schema
    if isinstance(schema, str | Path):
        try:
            tree = strictyaml.load(Path(schema).read_text("utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise BadFit(f"schema: {schema} cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, Mapping):
        raise BadFit(f"schema must be a mapping or the path of a YAML file with one, found {type(tree).__name__}")
    try:
        return Schema.model_validate(dict(tree))
    except ValidationError as error:
        raise BadFit(f"schema: {explain(error)}") from None


def numeric_schema(bounds: Any, columns: Sequence[str], norm: float | None) -> Schema:
    """Return the schema of columns that all hold numbers.

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
    features = tuple(Number(column=name, low=low, high=high) for name, (low, high) in zip(columns, pairs, strict=True))
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


__all__ = ["CLASSES", "LABEL", "Category", "Schema", "bounded", "numeric_schema", "read_schema"]
