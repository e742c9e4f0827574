"""The model in a run folder, or in an exported model file, and how it is shown."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.core.durable import write_durably
from common.core.errors import BadData, BadInput, BadScenario, NotFound
from common.core.plain import plain
from common.models.explain import lines
from common.models.export import load
from common.models.model import Model, Predicted, calibration, released, target_of
from common.scenario.scenario import parse
from common.statistics.intervals import certainty
from referee.runfolder import read_result, read_scenario
from referee.runs import percents
from referee.runs.percents import AS_IT_IS, PER_CENT

if TYPE_CHECKING:
    import polars


def open_model(place: str | Path, task: int | None = None) -> Model:
    """Return the model of a run folder, or of a JSON file that an export wrote.

    The contents of a run folder are not verified here; ``referee audit`` does that. NotFound if the place is neither.
    BadData if the file is no model, or the folder's files are damaged. BadInput if the run has no answer, or one that
    cannot predict. ``task``: in a run with several tasks, which one, from 1.
    """
    place = Path(place)
    if place.is_file():
        if task is not None:
            raise BadData(f"{place} is the file of one model: a task can be chosen of a run folder only")
        return load(place)
    if not place.exists():
        raise NotFound(f"there is neither a run folder nor a model file {place}")
    tree, document = read_scenario(place), read_result(place)
    try:
        chosen = parse(tree)
    except BadScenario as error:
        raise BadData(f"{place}: scenario.yaml is damaged: {error.detail}") from None
    return released(chosen, document, task)


def model_text(model: Model) -> list[str]:
    """Return the lines printed about a model: what it predicts and how, its loss on the population, what it cost."""
    printed = [f"{model.scenario}: {model.title}".removesuffix(": "), *lines(model)]
    if model.estimate is not None:
        e = model.estimate
        unit = AS_IT_IS if model.hypothesis.kind == "regressor" else PER_CENT
        loss = percents.estimate_or_vague(e.wire(), unit if model.costs is None else percents.of_costs(model.costs))
        printed.append(f"Loss on the population: {loss} ({certainty(e.confidence)}).")
    return [plain(line) for line in printed]


def predictions_frame(model: Model, predictions: Predicted) -> polars.DataFrame:
    """Return the predictions as a table: the predicted column, and ``probability``; rows in the order given."""
    import polars

    columns = {target_of(model).column: predictions.values.tolist()}
    if predictions.probabilities is not None and predictions.probabilities.ndim == 2:
        for name, column in zip(target_of(model).names, predictions.probabilities.T, strict=True):
            columns[f"probability of {name}"] = column.tolist()
    elif predictions.probabilities is not None:
        columns["probability" if "probability" not in columns else "its probability"] = (
            predictions.probabilities.tolist()
        )
    return polars.DataFrame(columns)


def predictions_document(model: Model, predictions: Predicted) -> dict[str, Any]:
    """Return the predictions as JSON; with several classes a row's probabilities are a list, ordered as ``classes``."""
    several = predictions.probabilities is not None and predictions.probabilities.ndim == 2
    return {
        "scenario": model.scenario,
        "column": target_of(model).column,
        "predictions": predictions.values.tolist(),
        "positive": target_of(model).names[-1] if predictions.probabilities is not None and not several else None,
        "probabilities": None if predictions.probabilities is None else predictions.probabilities.tolist(),
        **({"classes": list(target_of(model).names)} if several else {}),
        "calibration": None if predictions.probabilities is None else calibration(model),
        "rows": predictions.notes.rows,
        "notes": predictions.notes.document(),
    }


def write_predictions(path: Path, model: Model, predictions: Predicted) -> None:
    """Write the predictions to a file, durably, in the format of its suffix."""
    buffer = io.BytesIO()
    if path.suffix == ".csv":
        predictions_frame(model, predictions).write_csv(buffer)
    elif path.suffix == ".parquet":
        predictions_frame(model, predictions).write_parquet(buffer)
    else:
        raise BadInput(f"predictions are written as .csv or .parquet, found {path.name!r}")
    write_durably(path, buffer.getvalue())
