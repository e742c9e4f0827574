"""One person's record from the fields that the person knows, by the rules that a table's rows are read by.

An individual's agent takes a record as numbers; this makes it, on the individual's own device, without a library for
tables: fields become texts as in a file, texts become numbers, and the arithmetic is that of
:mod:`common.people.tables.rules`, which tables use as well. So the record is, to the bit, the one that the same fields
would have in a table.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from common.core.arrays import Singles
from common.core.errors import BadData
from common.people.tables.rules import scaled, shortened
from common.people.tables.source import Category, Feature, Label, Number, TableSource, Tokens
from common.people.tables.spelling import NUMBER, REMEDY, Respelled
from common.vocabulary.records import Records


def record_of(fields: Mapping[str, Any], source: TableSource) -> Records:
    """Return the record of one person.

    Parameters
    ----------
    fields
        By the names of the table's columns: numbers, texts, booleans; None, NaN, or a text that the layout takes for
        missing, where a value is not known. Fields that the table does not describe are left alone.
    source
        The table that the person would be a row of. ``selection`` is not looked at: it chooses among rows of a file.

    Returns
    -------
    One record, its features of shape (1, ``source.dimension``).

    Raises
    ------
    BadData
        If a field is missing altogether, a number is none or not finite, a category is a listed number in another
        spelling (``1.0`` for ``1``), the label is missing or not one of the two,
        or the person is none of those that ``where`` keeps. Messages name columns, never what a field holds.
    """
    absent = sorted(_wanted(source) - fields.keys())
    if absent:
        raise BadData(f"the record has no field {absent[0]!r}; it needs {', '.join(sorted(_wanted(source)))}")
    texts = {name: text_of(name, fields[name]) for name in _wanted(source)}
    for name, values in source.where.items():
        _spelled_as_listed(name, texts[name], values, source.layout.missing)
        if texts[name] not in values:
            raise BadData(f"field {name!r}: the scenario asks people only with one of {', '.join(values)}")
    missing = source.layout.missing
    numbers = [number for feature in source.features for number in _numbers(feature, texts[feature.column], missing)]
    features: Singles = shortened(np.array([numbers], dtype=np.float64), source.norm)
    return Records(features, np.array([_label(source.label, texts, missing)], dtype=np.int8)).check()


def text_of(name: str, value: Any) -> str:
    """Return a field as the text that it would be in a file, without spaces around it; empty where it is not there.

    Raises
    ------
    BadData
        If the value is neither a number nor a boolean nor a text.
    """
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | float | np.integer | np.floating):
        return str(value)
    if isinstance(value, str):
        return value.strip()
    raise BadData(f"field {name!r} must be a number, a text, a boolean or null, found {type(value).__name__}")


def _wanted(source: TableSource) -> set[str]:
    """Return the columns of one person: those of features, label and ``where``."""
    return {item.column for item in (*source.features, source.label)} | source.where.keys()


def _numbers(feature: Feature, text: str, missing: Tokens) -> list[float]:
    if isinstance(feature, Number):
        return [float(scaled(np.array(_number(feature.column, text, missing)), feature))]
    return _bits(feature, text, missing)


def _bits(feature: Category, text: str, missing: Tokens) -> list[float]:
    _spelled_as_listed(feature.column, text, [one for group in feature.groups for one in group], missing)
    return [float(text in group) for group in feature.groups]


def _spelled_as_listed(column: str, text: str, listed: Collection[str], missing: Tokens) -> None:
    if text in Respelled(listed, missing):
        raise BadData(f"field {column!r}: a number of the scenario's list in another spelling: {REMEDY}")


def _number(column: str, text: str, missing: Tokens) -> float:
    """Return a number, NaN where it is missing."""
    if text in missing:
        return math.nan
    number = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise BadData(f"field {column!r} must be a finite number")
    return number


def _label(label: Label, texts: Mapping[str, str], missing: Tokens) -> int:
    text = texts[label.column]
    if label.above is not None:
        number = _number(label.column, text, missing)
        if math.isnan(number):
            raise BadData(f"field {label.column!r}: the label is missing")
        return 1 if number > label.above else -1
    if text not in (*label.positive, *label.negative):
        named = ", ".join((*label.positive, *label.negative))
        raise BadData(f"field {label.column!r}: the label must be one of {named}")
    return 1 if text in label.positive else -1
