"""What a model predicts, in the words of the table: one of several names in a column, or a number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from common.core.arrays import AnyArray, Singles
from common.data.tables.source import Feature, Number
from common.models.model import Model
from common.vocabulary.hypotheses.argmax import Argmax
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.regressor import Regressor
from common.vocabulary.hypotheses.relabelled import Relabelled


@dataclass(frozen=True)
class Outcome:
    """What is predicted of a row.

    Attributes
    ----------
    column
        The column that would have it.
    names
        Of two: the negative, the positive. Of several: by their number. Of a number: none.
    low, high
        Of a number: its public bounds, which 0 and 1 stand for.
    """

    column: str
    names: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0


def outcome_of(model: Model) -> Outcome:
    """Return what a model predicts."""
    return _outcome(model.hypothesis, model)


def predictions(model: Model, features: Singles) -> AnyArray:
    """Return the predictions for n rows, shape (n,): texts, or float64 in the column's own unit.

    Parameters
    ----------
    model
        The model.
    features
        Shape (n, d), float32, as the table makes them.
    """
    found, outcome = model.hypothesis, outcome_of(model)
    if not outcome.names:
        return outcome.low + (outcome.high - outcome.low) * found.values(features)
    if isinstance(found, Argmax):
        return np.asarray(outcome.names)[found.classes(features)]
    return np.asarray(outcome.names)[(found.predict(features) > 0).astype(np.int64)]


@singledispatch
def _outcome(hypothesis: Hypothesis, model: Model) -> Outcome:
    """Any kind that is about the record's own label."""
    label = model.table.label
    return Outcome("label" if label is None else label.column, model.classes)


@_outcome.register
def _(hypothesis: Relabelled, model: Model) -> Outcome:
    feature, place = feature_at(model, hypothesis.column)
    if isinstance(feature, Number):
        middle = feature.low + 0.5 * (feature.high - feature.low)
        return Outcome(feature.column, (f"at most {middle:g}", f"above {middle:g}"))
    names = [group[0] for group in feature.groups]
    others = [name for name in names if name != names[place]]
    return Outcome(feature.column, (others[0] if len(others) == 1 else f"not {names[place]}", names[place]))


@_outcome.register
def _(hypothesis: Argmax, model: Model) -> Outcome:
    places = [feature_at(model, hypothesis.first + number) for number in range(len(hypothesis.hypotheses))]
    first = places[0][0]
    if isinstance(first, Number) or any(feature is not first for feature, _ in places):
        return Outcome("class", tuple(feature_names(model)[hypothesis.first :][: len(places)]))
    return Outcome(first.column, tuple(first.groups[place][0] for _, place in places))


@_outcome.register
def _(hypothesis: Regressor, model: Model) -> Outcome:
    feature, _ = feature_at(model, hypothesis.response)
    if isinstance(feature, Number):
        return Outcome(feature.column, (), feature.low, feature.high)
    return Outcome(feature.column)


def feature_at(model: Model, number: int) -> tuple[Feature, int]:
    """Return what a feature is made from, and its place among the features that are."""
    for feature in model.table.features:
        if number < feature.width:
            return feature, number
        number -= feature.width
    raise IndexError(f"the table has {model.table.dimension} features")


def feature_names(model: Model) -> tuple[str, ...]:
    """Return a name for each feature: the column of a number, ``column=value`` of a category."""
    names: list[str] = []
    for feature in model.table.features:
        if isinstance(feature, Number):
            names.append(feature.column)
        else:
            names += [f"{feature.column}={'/'.join(group)}" for group in feature.groups]
    return tuple(names)
