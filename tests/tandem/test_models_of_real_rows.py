"""On real rows, what is predicted, exported and read again is what the audited answer says of the people's records."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import polars
import pytest

import tandem
from common.data.population import locate
from common.data.tables import Schema, load
from common.data.tables.record import record_of
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.trees import Trees
from common.models.export import load as load_document
from common.models.model import Model, label_classes
from common.models.onnx_export import onnx_inputs
from common.scenario.loading import load as load_scenario
from tests.common.data.test_people import SHELF, needs_adult

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_data"
SMALL = (
    "curator.n=4000", "curator.rounds=1", "curator.learner.steps=20000", "agents.count=6000", "agents.batch=1000",
    "baselines=[]",
)  # fmt: skip


def by_onnx(model, data, folder):
    """Return the labels that ONNX Runtime gives for rows, and the margins where there are some."""
    from onnxruntime import InferenceSession

    session = InferenceSession(str(tandem.export(model, folder / "model.onnx")))
    found = session.run(None, onnx_inputs(model, data))
    return found[0], found[1] if len(found) > 1 else None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tandem.models.DataNote")
def test_a_run_on_ones_own_data_from_its_start_to_its_predictions(tmp_path):
    runpy.run_path(str(EXAMPLE / "make_people.py"))["main"](tmp_path)
    finished = tandem.run(EXAMPLE / "scenario.yaml", f"data={tmp_path}", *SMALL, output=tmp_path / "run")
    tandem.audit(finished.folder)
    assert "\n  visits, a unit " in (finished.folder / "report.html").read_text()
    source = load_scenario(str(EXAMPLE / "scenario.yaml")).target.table
    people = load(tmp_path, source)
    expected = np.where(finished.hypothesis.predict(people.features) > 0, "yes", "no")
    customers = tmp_path / "customers.csv"
    np.testing.assert_array_equal(tandem.predict(finished, customers), expected)
    np.testing.assert_array_equal(tandem.as_sklearn(finished).predict(polars.read_csv(customers)), expected)
    again = tandem.load_model(tandem.export(finished, tmp_path / "model.json"))
    np.testing.assert_array_equal(tandem.predict(again, customers), expected)
    labels, margins = by_onnx(again, customers, tmp_path)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(margins, finished.hypothesis.margins(people.features))
    wrong = np.mean((expected == "yes") != (people.labels > 0))
    assert finished.result["truth"]["loss_on_target"] == pytest.approx(wrong, abs=0.02)  # of all, not of those asked
    for place, row in enumerate(polars.read_csv(customers).head(300).to_dicts()):
        np.testing.assert_array_equal(record_of(row, source).features, people.features[place : place + 1])


def of_adult(name, hypothesis) -> tuple[Model, Path, np.ndarray]:
    """Return a model over the columns of Adult, a file of its rows, and what they are encoded to."""
    source = load_scenario(name).target.table
    source = source.model_copy(update={"where": {}, "selection": None, "files": ("adult.data",)})
    schema = Schema(features=source.features, label=source.label, norm=source.norm, layout=source.layout)
    folder = locate(str(SHELF / "adult"))
    model = Model(scenario=name, table=schema, hypothesis=hypothesis, classes=label_classes(source.label))
    return model, folder / "adult.data.xz", load(folder, source).features


@needs_adult
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tandem.models.DataNote")
@pytest.mark.parametrize("name", ["adult", "adult-biased"])
@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_all_of_adult(name, kind, tmp_path):
    """Rows are shortened to a norm there, 13 and 61 features wide; a linear margin agrees in every bit."""
    width = load_scenario(name).target.table.dimension
    generator = np.random.default_rng(width)
    hypothesis: Hypothesis
    if kind == "linear":
        hypothesis = Linear(weights=tuple(generator.normal(size=width).tolist()), threshold=0.3)
    else:
        hypothesis = Trees(
            roots=(0, 5), feature=(0, 1, -1, -1, -1, 2, -1, -1), threshold=(0.2, 0.5, -0.7, 0.3, 0.2, 0.3, -0.1, 0.4),
            left=(1, 2, -1, -1, -1, 6, -1, -1), right=(4, 3, -1, -1, -1, 7, -1, -1), base=0.05,
        )  # fmt: skip
    model, file, features = of_adult(name, hypothesis)
    expected = np.where(hypothesis.predict(features) > 0, ">50K", "<=50K")
    assert 0.02 < np.mean(expected == ">50K") < 0.98
    np.testing.assert_array_equal(tandem.predict(model, file), expected)
    labels, margins = by_onnx(model, file, tmp_path)
    np.testing.assert_array_equal(labels, expected)
    if kind == "linear":
        np.testing.assert_array_equal(margins, hypothesis.margins(features))
    np.testing.assert_array_equal(tandem.as_sklearn(model).predict(file), expected)
    assert load_document(tandem.export(model, tmp_path / "model.json")) == model
