"""Use the released model of a run: describe it, predict with it, export it; and make an individual's record.

All of this is post-processing of public data. Nothing is charged, and no party is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.core.errors import BadInput, BadMessage, BadScenario
from common.core.machine import works_after_fork
from common.data.tables import record_of as mapped
from common.local.losses import Costs
from common.models.explain import lines
from common.models.export import export as export_model
from common.models.model import DataNote as DataNote
from common.models.model import Model as Model
from common.models.model import Predicted, target_of
from common.models.model import predict as predicted
from common.scenario import loading
from common.scenario.scenario import parse
from referee.view.models import open_model

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


def load_model(place: Any, *, task: int | None = None) -> Model:
    """Return the usable model of a run, or one that was exported as JSON.

    ``place`` is a :class:`tandem.Run`, the path of a run folder or of a model's JSON file, or a model, which is
    returned; other functions here take the same. ``task``: in a run with several tasks, which one, from 1. BadInput if
    there is no answer, or none that can predict; NotFound if there is no such folder or file.
    """
    if isinstance(place, Model):
        return place
    if not isinstance(place, str | Path) and not hasattr(place, "folder"):
        raise BadInput(f"give a run, its folder, or a model's file, found {type(place).__name__}")
    return open_model(getattr(place, "folder", place), task)


def predict(place: Any, data: Any, *, strict: bool = False, costs: Mapping[str, float] | None = None) -> AnyArray:
    """Return the predictions of a run's model for rows of raw data.

    Args:
        data: The path of a CSV, Parquet or NumPy file, a frame of polars or pandas, or a list of mappings: rows with
            the model's columns (:attr:`Model.columns`); other columns are ignored. The label is not needed.
        strict: Refuse values beyond their bounds, unlisted and missing ones. Otherwise they are treated as the scenario
            states, and a :class:`DataNote`, a warning, counts them.
        costs: The costs of mistakes, ``{"miss": 10, "false_alarm": 1}``: the positive label is then predicted if its
            calibrated probability is above false_alarm/(false_alarm + miss), whatever the answer predicts.

    Returns:
        Shape (n,): labels as the scenario's table spells them, or the numbers of a regression in the column's own unit.

    Raises:
        BadData: If a file cannot be read, a column is missing, a number is not valid, or ``strict`` refuses a value.
        BadMessage: If the costs are not two positive numbers.

    Examples:
        >>> import tandem
        >>> tandem.predict("runs/own-data", [{"visits": 12, "months": 3, "plan": "pro"}])  # doctest: +SKIP
        array(['yes'], dtype='<U3')
    """
    if not isinstance(costs, Mapping | None):
        raise BadMessage(f"costs must be a mapping such as {{'miss': 10, 'false_alarm': 1}}, found {costs!r}")
    cheapest = None if costs is None else Costs.parse(dict(costs))
    return _predicted(load_model(place), data, strict, probabilities=False, costs=cheapest).values


def predict_proba(place: Any, data: Any, *, strict: bool = False) -> Floats:
    """Return the probabilities of both labels, shape (n, 2), in the order of :attr:`Model.classes`.

    For a model of C classes the shape is (n, C), in the order in which the table lists them.

    They come from :attr:`Model.calibrated`, a logistic curve of a score that was fitted to the agents' answers, even if
    the answer that they judged best is a constant. Arguments and errors are those of :func:`predict`; BadInput if no
    agents calibrated a score.
    """
    probabilities = _predicted(load_model(place), data, strict, probabilities=True).probabilities
    assert probabilities is not None  # noqa: S101 - probabilities were requested
    return probabilities if probabilities.ndim == 2 else np.stack([1.0 - probabilities, probabilities], axis=1)


def export(place: Any, file: str | Path) -> Path:
    """Write the model of a run to a file, in the format of its suffix; return the path.

    ``.json``: everything, with the names of columns, for :func:`load_model`. ``.onnx``: raw columns in, labels out;
    needs the extra ``onnx``. ``.joblib``: the pipeline of :func:`as_sklearn`, pickled. Loading a pickle executes code
    in it, so send a model to others as JSON. BadInput if there is no such format, a package is missing, or the format
    does not support the kind of model.
    """
    return export_model(load_model(place), file)


def as_sklearn(place: Any) -> Pipeline:
    """Return the model of a run as a fitted pipeline of scikit-learn that takes raw rows.

    Its step ``columns`` makes features; its step ``model`` has ``predict``, ``classes_``, ``decision_function``, for a
    half-space ``coef_`` and ``intercept_``, and ``predict_proba`` if agents calibrated a score. A JSON file is read
    without any pickle.
    """
    from common.models.pipeline import as_pipeline

    return as_pipeline(load_model(place))


def describe(place: Any) -> list[str]:
    """Return a description of a run's model, line by line: its weights by column, in the column's own unit."""
    return lines(load_model(place))


@works_after_fork
def record_of(scenario: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an individual's record for ``local-agent answer``: ``{"features": [...], "label": 1 or -1}``.

    It equals, bit for bit, the record of the same fields as a row of the scenario's target table. BadScenario if the
    scenario is not valid, or its target people are simulated. BadData if a field is missing, a number is not valid, the
    label is neither of the two, or ``where`` excludes the person.

    Args:
        scenario: A shipped name, a YAML file, or a tree of its keys.
        fields: Values by the names of the table's columns, including the label's: numbers, texts, booleans; None for an
            unknown value. Further fields are ignored.
    """
    if isinstance(scenario, Mapping):
        table = parse(dict(scenario)).target.table
        if table is None:
            raise BadScenario("target.table: the people of this scenario are simulated")
    else:
        table = loading.described_people(str(scenario)).table
    record = mapped(fields, table)
    return {"features": record.features[0].tolist(), "label": int(record.labels[0])}


def _predicted(model: Model, data: Any, strict: bool, *, probabilities: bool, costs: Costs | None = None) -> Predicted:
    prediction = predicted(model, data, probabilities=probabilities, strict=strict, costs=costs)
    for line in prediction.notes.sentences(model.table):
        warnings.warn(f"{target_of(model).column}: {line}", DataNote, stacklevel=3)
    return prediction
