"""From somebody's rows to predictions: the rows are read, mapped and labelled as the scenario does with its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats, Singles
from common.core.errors import BadData
from common.core.machine import works_after_fork
from common.data.tables.examining import Notes
from common.data.tables.frames import rows_of
from common.data.tables.loading import encode_piece
from common.models.model import Model
from common.models.outcome import outcome_of, predictions
from common.vocabulary.hypotheses.recalibrated import Recalibrated


class DataNote(UserWarning):
    """Rows hold what the table's public description does not expect; the rules say what it counts as."""


@dataclass(frozen=True)
class Predicted:
    """The predictions for n rows.

    Attributes
    ----------
    values
        Shape (n,): texts as the table spells them, or numbers in the column's own unit.
    probabilities
        Shape (n,), of the positive label; None where nobody asked.
    notes
        What was clipped, unlisted or missing.
    """

    values: AnyArray
    probabilities: Floats | None
    notes: Notes


@works_after_fork
def predict(model: Model, data: Any, *, probabilities: bool = False, strict: bool = False) -> Predicted:
    """Predict for rows.

    Parameters
    ----------
    model
        The model.
    data
        A file's path, a frame of polars or pandas, or a list of mappings, with the model's columns; others, the label
        among them, are left alone.
    probabilities
        Whether to give those as well.
    strict
        Refuse rows in which something is beyond its bounds, unlisted or missing, instead of counting it.

    Raises
    ------
    BadData
        If a file cannot be read, a column is missing, or a number is none.
    BadInput
        If the model gives no probabilities, or cannot be used on new rows.
    """
    inputs, columns = model.inputs, frozenset(model.columns)
    _probabilities(model, np.zeros((0, model.table.dimension), np.float32), probabilities)
    notes, found, shares = Notes(), [_nothing(model)], [np.zeros(0)]
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

    Raises
    ------
    BadData, BadInput
        As :func:`predict`.
    """
    inputs, columns = model.inputs, frozenset(model.columns)
    parts = [encode_piece(piece, model.table, inputs) for piece in rows_of(data, columns, model.table.layout)]
    return np.concatenate([np.zeros((0, model.table.dimension), np.float32), *parts])


def _nothing(model: Model) -> AnyArray:
    return predictions(model, np.zeros((0, model.table.dimension), np.float32))


def _probabilities(model: Model, features: Singles, wanted: bool) -> Floats:
    """Return the probabilities of the positive label, and nothing where nobody asked."""
    return model.hypothesis.probabilities(features) if wanted else np.zeros(0)


def calibration(model: Model) -> str:
    """Say what the model's probabilities are worth."""
    name = outcome_of(model).names[-1]
    if isinstance(model.hypothesis, Recalibrated):
        return (
            f"probability of {name!r}: that of a logistic fit to what agents of the population said of its score, "
            f"within the noise of their answers"
        )
    if model.loss == "logistic":
        return (
            f"probability of {name!r}: that of a logistic model, 1/(1 + e^-margin), learned from the curator's people; "
            f"that it is calibrated on the population is not certified"
        )
    how = "its learner's loss is not known" if model.loss is None else f"it was learned by {model.loss} loss"
    return f"probability of {name!r}: uncalibrated, 1/(1 + e^-margin); {how}, so only the order of rows has a meaning"
