"""Use what a run has released: show it, predict with it, export it; and make an individual's record as it does.

All of it is post-processing of public things. Nothing is charged, and nobody is asked.
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
    returned; other functions here take the same. ``task``: of a run that learned several things, which one, from 1.
    BadInput says that there is no answer, or none with which anything can be predicted, NotFound that there is no such
    folder or file.
    """
    if isinstance(place, Model):
        return place
    if not isinstance(place, str | Path) and not hasattr(place, "folder"):
        raise BadInput(f"give a run, its folder, or a model's file, found {type(place).__name__}")
    return open_model(getattr(place, "folder", place), task)


def predict(place: Any, data: Any, *, strict: bool = False, costs: Mapping[str, float] | None = None) -> AnyArray:
    """Return what the model of a run predicts for rows of raw data.

    Args:
        data: The path of a CSV, Parquet or NumPy file, a frame of polars or pandas, or a list of mappings: rows with
            the model's columns (:attr:`Model.columns`), others are left alone. The label is not needed.
        strict: Refuse values beyond their bounds, unlisted and missing ones. Otherwise they count as the scenario says,
            and a :class:`DataNote`, a warning, has how many there were.
        costs: What mistakes cost, ``{"miss": 10, "false_alarm": 1}``: the positive label is then predicted where its
            calibrated probability is above false_alarm/(false_alarm + miss), whatever the answer predicts.

    Returns:
        Shape (n,): labels as the scenario's table spells them, or the numbers of a regression in the column's own unit.

    Raises:
        BadData: If a file cannot be read, a column is missing, a number is none, or strictness is not met.
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

    Of a model of C classes the shape is (n, C), in the order in which the table lists them.

    They are those of :attr:`Model.calibrated`, a logistic curve of a score that was fitted to the agents' answers, also
    where the answer that they judged best is a constant. Arguments and errors are those of :func:`predict`; BadInput
    says that no agents calibrated a score.
    """
    found = _predicted(load_model(place), data, strict, probabilities=True).probabilities
    assert found is not None  # noqa: S101 - they were asked for
    return found if found.ndim == 2 else np.stack([1.0 - found, found], axis=1)


def export(place: Any, file: str | Path) -> Path:
    """Write the model of a run to a file, in the form that its suffix names; return the path.

    ``.json``: everything, with the names of columns, read again by :func:`load_model`. ``.onnx``: raw columns in,
    labels out; needs the extra ``onnx``. ``.joblib``: the pipeline of :func:`as_sklearn`, pickled. Whoever loads a
    pickle runs what is in it: where the model travels, send JSON. BadInput says that there is no such form, a package
    is missing, or the kind of model does not go into it.
    """
    return export_model(load_model(place), file)


def as_sklearn(place: Any) -> Pipeline:
    """Return the model of a run as a fitted pipeline of scikit-learn that takes raw rows.

    Its step ``columns`` makes features, its step ``model`` has ``predict``, ``classes_``, ``decision_function``, of a
    half-space ``coef_`` and ``intercept_``, and ``predict_proba`` where agents calibrated a score. From a JSON file no
    pickle is ever read.
    """
    from common.models.pipeline import as_pipeline

    return as_pipeline(load_model(place))


def describe(place: Any) -> list[str]:
    """Return the model of a run in words, a line each: its weights by column and in the column's own unit."""
    return lines(load_model(place))


@works_after_fork
def record_of(scenario: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an individual's record as ``local-agent answer`` takes it: ``{"features": [...], "label": 1 or -1}``.

    It is, to the bit, what the same fields would become as a row of the scenario's target table. BadScenario if the
    scenario is not valid, or its target people are simulated. BadData if a field is missing, a number is none, the
    label is none of the two, or ``where`` keeps other people.

    Args:
        scenario: A shipped name, a YAML file, or a tree of its keys.
        fields: By the names of the table's columns, the label's among them: numbers, texts, booleans; None where a
            value is not known. Further fields are left alone.
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
    found = predicted(model, data, probabilities=probabilities, strict=strict, costs=costs)
    for line in found.notes.sentences(model.table):
        warnings.warn(f"{target_of(model).column}: {line}", DataNote, stacklevel=3)
    return found
