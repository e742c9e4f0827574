"""One person's record from the fields that the person knows, by the rules that a table's rows are read by.

An individual's agent takes a record as numbers; this makes it, on the individual's own device, without a library for
tables: fields become canonical texts, texts become numbers, and the arithmetic is that of
:mod:`common.data.tables.source`, which tables use as well. So the record is, to the bit, the one that the same fields
would have in a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from common.core.arrays import Singles
from common.core.errors import BadData
from common.data.tables.source import Feature, Label, Layout, Number, TableSource, scaled, shortened
from common.data.tables.spelling import NUMBER, NoText, canonical, plain_text
from common.local.records import Records


def record_of(fields: Mapping[str, Any], source: TableSource) -> Records:
    """Return the record of one person.

    Args:
        fields: By the names of the table's columns: numbers, texts, booleans, dates; None, NaN, or a text that the
            layout takes for missing, where a value is not known. Fields that the table does not describe are left
            alone.
        source: The table that the person would be a row of. ``selection`` is not looked at: it chooses among rows of a
            file.

    Returns:
        One record, its features of shape (1, ``source.dimension``).

    Raises:
        BadData: If a field is missing altogether, a number is none or not finite, the label is missing or not one of
            the two, or the person is none of those that ``where`` keeps. Messages name columns, never what a field
            holds.
    """
    absent = sorted(_wanted(source) - fields.keys())
    if absent:
        raise BadData(f"the record has no field {absent[0]!r}; it needs {', '.join(sorted(_wanted(source)))}")
    texts = {name: canonical(text_of(name, fields[name])) for name in _wanted(source)}
    for name, values in source.where.items():
        if texts[name] not in source.where_texts(name):
            raise BadData(f"field {name!r}: the scenario asks people only with one of {', '.join(values)}")
    layout = source.layout
    numbers = [number for feature in source.features for number in _numbers(feature, texts[feature.column], layout)]
    features: Singles = shortened(np.array([numbers], dtype=np.float64), source.norm)
    return Records(features, np.array([_label(source.label, texts, layout)], dtype=np.int8)).check()


def text_of(name: str, value: Any) -> str:
    """Return a field as the text that it would be in a file, without spaces around it; empty where it is not there.

    Raises:
        BadData: If the value is of another type.
    """
    try:
        return plain_text(value).strip()
    except NoText as error:
        raise BadData(f"field {name!r} must be a number, a text, a boolean or null, found {error}") from None


def _wanted(source: TableSource) -> set[str]:
    return {item.column for item in (*source.features, source.label)} | source.where.keys()


def _numbers(feature: Feature, text: str, layout: Layout) -> list[float]:
    if isinstance(feature, Number):
        return [float(scaled(np.array(_number(feature.column, text, layout)), feature))]
    return [float(text in texts) for texts in feature.texts(layout)]


def _number(column: str, text: str, layout: Layout) -> float:
    if text in layout.missing_texts:
        return math.nan
    number = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise BadData(f"field {column!r} must be a finite number")
    return number


def _label(label: Label, texts: Mapping[str, str], layout: Layout) -> int:
    text = texts[label.column]
    if label.above is not None:
        number = _number(label.column, text, layout)
        if math.isnan(number):
            raise BadData(f"field {label.column!r}: the label is missing")
        return 1 if number > label.above else -1
    positive, negative = label.texts(layout)
    if text not in (*positive, *negative):
        named = ", ".join((*label.positive, *label.negative))
        raise BadData(f"field {label.column!r}: the label must be one of {named}")
    return 1 if text in positive else -1
