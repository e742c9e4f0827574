"""Whatever kind a hypothesis is of, on raw rows it says what it says of the features that the table makes of them."""

import json

import joblib
import numpy as np
import polars
import pytest

from common.core.errors import BadInput
from common.data.tables import encode
from common.local.hypotheses.argmax import Argmax
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.regressor import Regressor
from common.models.explain import lines
from common.models.export import document_of, export, load, parse_document, save
from common.models.onnx_export import onnx_bytes, onnx_inputs, write
from common.models.pipeline import as_pipeline
from common.models.predict import features_of, outcome_of, predict, predictions
from tests.common.models.given import model_of, rows, usable
from tests.contracts import examples
from tests.tiers import for_each

NORMS = (None, 0.9, 100.0)


def evaluated(raw, model, data):
    """Return the outputs of an ONNX file by name, evaluated on one thread."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = InferenceSession(raw, options)
    inputs = onnx_inputs(model, data)
    assert {given.name for given in session.get_inputs()} == set(inputs)
    return dict(zip([given.name for given in session.get_outputs()], session.run(None, inputs), strict=True))


@for_each("norm", NORMS)
@for_each("hypothesis", examples(HYPOTHESES))
class TestEveryKind:
    def test_it_predicts_what_the_hypothesis_does(self, hypothesis, norm):
        model = model_of(hypothesis, norm)
        data = rows(model.table, 60)
        if not usable(model):
            with pytest.raises(BadInput, match="shortens rows together with the column that is predicted"):
                predict(model, data)
            return
        frame = polars.DataFrame(data)
        whole = encode(frame, model.table.source("people.csv"))  # as the parties encode, every column
        found = predict(model, data)
        np.testing.assert_array_equal(found.values, predictions(model, whole))
        if not isinstance(hypothesis, Argmax | Regressor):
            names = outcome_of(model).names
            assert found.values.tolist() == [names[int(label > 0)] for label in hypothesis.predict(whole)]
        needed = frame.select(model.columns)  # neither the label nor what else it does not look at
        np.testing.assert_array_equal(predict(model, needed).values, found.values)

    def test_json_gives_it_back(self, hypothesis, norm, tmp_path):
        model = model_of(hypothesis, norm, loss="logistic")
        tree = json.loads(json.dumps(document_of(model)))
        assert parse_document(tree) == model
        assert load(save(model, tmp_path / "model.json")) == model
        assert lines(model) == tree["in_words"]

    def test_onnx_says_the_same(self, hypothesis, norm):
        model = model_of(hypothesis, norm)
        if not usable(model):
            with pytest.raises(BadInput, match="shortens rows"):
                onnx_bytes(model)
            return
        if not isinstance(hypothesis, Argmax) and write.dispatch(type(hypothesis)) is write.dispatch(
            object
        ):  # of an installed package
            with pytest.raises(BadInput, match="nobody has said how"):
                onnx_bytes(model)
            return
        data = rows(model.table, 200, seed=2)
        found = predict(model, data)
        given = evaluated(onnx_bytes(model), model, data)
        if "value" in given:
            np.testing.assert_array_equal(given["value"], found.values)
        else:
            assert given["label"].tolist() == found.values.tolist()
        if "margin" in given:
            np.testing.assert_array_equal(given["margin"], hypothesis.margins(features_of(model, data)))
            shares = hypothesis.probabilities(features_of(model, data))
            np.testing.assert_allclose(given["probability"], shares, rtol=1e-12)

    def test_scikit_learn_says_the_same(self, hypothesis, norm, tmp_path):
        model = model_of(hypothesis, norm)
        if not usable(model):
            with pytest.raises(BadInput, match="shortens rows"):
                as_pipeline(model)
            return
        data = polars.DataFrame(rows(model.table, 50, seed=3))
        found = predict(model, data)
        again = joblib.load(export(model, tmp_path / "model.joblib"))
        for pipeline in (as_pipeline(model), again):
            np.testing.assert_array_equal(pipeline.predict(data), found.values)
        assert as_pipeline(model)[:-1].get_feature_names_out().shape == (model.table.dimension,)


@for_each("hypothesis", examples(HYPOTHESES))
def test_a_prediction_depends_on_the_inputs_only(hypothesis):
    """Columns that are none of them may be missing, so this is what makes a prediction without them the same one."""
    model = model_of(hypothesis)
    features = features_of(model_of(Linear(weights=(0.0,) * 9, threshold=0.0)), rows(model.table, 40))
    features = np.hstack([features, np.zeros((40, max(0, model.table.dimension - 9)), np.float32)])
    changed = features.copy()
    others = sorted(set(range(features.shape[1])) - set(hypothesis.inputs))
    changed[:, others] = 1.0 - changed[:, others]
    np.testing.assert_array_equal(predictions(model, features), predictions(model, changed))
    assert tuple(sorted(hypothesis.inputs)) == hypothesis.inputs
    assert all(0 <= number < hypothesis.min_features for number in hypothesis.inputs)


@for_each("norm", [None, 1.5])
@for_each("count", [1, 7, 8, 9, 62, *(pytest.param(count, marks=pytest.mark.slow) for count in (16, 31, 129, 300))])
def test_onnx_adds_up_in_the_same_order_at_every_width(count, norm):
    """Margins agree in every bit, so a row on the border has the same label too."""
    generator = np.random.default_rng(count)
    hypothesis = Linear(weights=tuple(generator.normal(size=count).tolist()), threshold=0.1)
    model = model_of(hypothesis, norm)
    data = rows(model.table, 20, seed=count)
    margins = evaluated(onnx_bytes(model), model, data)["margin"]
    np.testing.assert_array_equal(margins, hypothesis.margins(features_of(model, data)))


def test_onnx_sums_trees_in_double_precision():
    """In single precision the leaf of 1e-9 would be lost beside 1, and so the label."""
    kind = HYPOTHESES["trees"]
    trees = kind.parse(
        {
            "kind": "trees", "roots": [0, 1, 4], "feature": [-1, 1, -1, -1, -1], "left": [-1, 2, -1, -1, -1],
            "right": [-1, 3, -1, -1, -1], "threshold": [1.0, 0.5, 1e-9, -1e-9, 0.0], "base": -1.0,
        }
    )  # fmt: skip
    model = model_of(trees)
    data = rows(model.table, 40)
    found = predict(model, data).values.tolist()
    assert set(found) == {"yes", "no"}
    assert evaluated(onnx_bytes(model), model, data)["label"].tolist() == found
