"""Predictions for rows of a table: read, mapped and labelled as the scenario does with its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats, Singles
from common.core.errors import BadData
from common.core.machine import works_after_fork
from common.data.examining import Notes
from common.data.loading import encode_piece, rows_of
from common.data.tables import Feature, Number
from common.local.hypotheses.composed import Argmax, Recalibrated, Relabelled
from common.local.hypotheses.linear import Regressor
from common.models.model import Model


class DataNote(UserWarning):
    """Rows hold what the table's public description does not expect; the rules say what it counts as."""


@dataclass(frozen=True)
class Predicted:
    """The predictions for n rows.

    Attributes:
        values: Shape (n,): texts as the table spells them, or numbers in the column's own unit.
        probabilities: Shape (n,), of the positive label; None where they were not asked for.
    """

    values: AnyArray
    probabilities: Floats | None
    notes: Notes


@works_after_fork
def predict(model: Model, data: Any, *, probabilities: bool = False, strict: bool = False) -> Predicted:
    """Predict for rows.

    Args:
        data: A file's path, a frame of polars or pandas, or a list of mappings, with the model's columns; others, the
            label among them, are left alone.
        probabilities: Whether to give those as well.
        strict: Refuse rows in which something is beyond its bounds, unlisted or missing, instead of counting it.

    Raises:
        BadData: If a file cannot be read, a column is missing, or a number is none.
        BadInput: If the model gives no probabilities, or cannot be used on new rows.
    """
    inputs, columns = model.inputs, frozenset(model.columns)
    nothing = np.zeros((0, model.table.dimension), np.float32)
    notes, found, shares = Notes(), [predictions(model, nothing)], [_probabilities(model, nothing, probabilities)]
    for piece in rows_of(data, columns, model.table.layout):
        features = encode_piece(piece, model.table, inputs)
        notes.add(piece, model.table, columns)
        found.append(predictions(model, features))
        shares.append(_probabilities(model, features, probabilities))
    lines = notes.sentences(model.table)
    if strict and lines:
        raise BadData("; ".join(lines))
    return Predicted(np.concatenate(found), np.concatenate(shares) if probabilities else None, notes)


@works_after_fork
def features_of(model: Model, data: Any) -> Singles:
    """Return what the model sees of rows, shape (n, ``model.table.dimension``), float32; what it leaves alone is 0.

    Errors are those of :func:`predict`.
    """
    inputs, columns = model.inputs, frozenset(model.columns)
    parts = [encode_piece(piece, model.table, inputs) for piece in rows_of(data, columns, model.table.layout)]
    return np.concatenate([np.zeros((0, model.table.dimension), np.float32), *parts])


def _probabilities(model: Model, features: Singles, wanted: bool) -> Floats:
    return model.hypothesis.probabilities(features) if wanted else np.zeros(0)


def calibration(model: Model) -> str:
    """Say what the model's probabilities are worth."""
    name = target_of(model).names[-1]
    if isinstance(model.hypothesis, Recalibrated):
        return (
            f"probability of {name!r}: that of a logistic fit to the agents' answers about its score, "
            f"within the noise of their answers"
        )
    if model.loss == "logistic":
        return (
            f"probability of {name!r}: that of a logistic model, 1/(1 + e^-margin), learned from the curator's people; "
            f"that it is calibrated on the population is not certified"
        )
    how = "its learner's loss is not known" if model.loss is None else f"it was learned by {model.loss} loss"
    return f"probability of {name!r}: uncalibrated, 1/(1 + e^-margin); {how}, so only the order of rows has a meaning"


@dataclass(frozen=True)
class Target:
    """What is predicted of a row, in a column.

    Attributes:
        names: Of two: the negative, the positive. Of several: by their number. Of a number: none.
        low, high: Of a number: its public bounds, which 0 and 1 stand for.
    """

    column: str
    names: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0


def target_of(model: Model) -> Target:
    """Return what a model predicts."""
    match model.hypothesis:
        case Relabelled(column=column):
            feature, place = feature_at(model, column)
            if isinstance(feature, Number):
                middle = feature.low + 0.5 * (feature.high - feature.low)
                return Target(feature.column, (f"at most {middle:g}", f"above {middle:g}"))
            names = [group[0] for group in feature.groups]
            others = [name for name in names if name != names[place]]
            return Target(feature.column, (others[0] if len(others) == 1 else f"not {names[place]}", names[place]))
        case Argmax(first=first, hypotheses=hypotheses):
            places = [feature_at(model, first + number) for number in range(len(hypotheses))]
            feature = places[0][0]
            if isinstance(feature, Number) or any(other is not feature for other, _ in places):
                return Target("class", feature_names(model)[first:][: len(places)])
            return Target(feature.column, tuple(feature.groups[place][0] for _, place in places))
        case Regressor(response=response):
            feature, _ = feature_at(model, response)
            bounds = (feature.low, feature.high) if isinstance(feature, Number) else (0.0, 1.0)
            return Target(feature.column, (), *bounds)
    label = model.table.label
    return Target("label" if label is None else label.column, model.classes)


def predictions(model: Model, features: Singles) -> AnyArray:
    """Return the predictions for n rows of features as the table makes them: texts, or float64 in the column's unit."""
    found, outcome = model.hypothesis, target_of(model)
    if not outcome.names:
        return outcome.low + (outcome.high - outcome.low) * found.values(features)
    if isinstance(found, Argmax):
        return np.asarray(outcome.names)[found.classes(features)]
    return np.asarray(outcome.names)[(found.predict(features) > 0).astype(np.int64)]


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
