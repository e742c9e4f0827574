"""Whatever kind a hypothesis is of, on raw rows it says what it says of the features that the table makes of them."""

import gzip
import json
import math
import time
from typing import Any

import joblib
import numpy as np
import pandas
import polars
import pytest

from common.core.errors import BadData, BadInput, BadMessage
from common.data.loading import encode
from common.data.schema import Schema
from common.data.tables import Label, Layout
from common.local.hypotheses.composed import Argmax, Recalibrated
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis, Linear, Regressor
from common.local.hypotheses.rules import Constant, Parity
from common.local.losses import Costs
from common.models.explain import linear_terms, lines
from common.models.export import document_of, export, load, parse_document, save
from common.models.model import (
    Model,
    calibration,
    features_of,
    label_classes,
    predict,
    predictions,
    released,
    target_of,
)
from common.models.onnx_export import onnx_bytes, onnx_inputs, write
from common.models.pipeline import as_pipeline
from common.scenario.loading import load as load_scenario
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
            for use in (onnx_bytes, as_pipeline, lambda model: predict(model, data)):
                with pytest.raises(BadInput, match="shortens rows together with the column that is predicted"):
                    use(model)
            return
        frame = polars.DataFrame(data)
        whole = encode(frame, model.table.source("people.csv"))  # as the parties encode, every column
        found = predict(model, data)
        np.testing.assert_array_equal(found.values, predictions(model, whole))
        if not isinstance(hypothesis, Argmax | Regressor):
            names = target_of(model).names
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
            return
        foreign = write.dispatch(type(hypothesis)) is write.dispatch(object)  # of an installed package
        if foreign and not isinstance(hypothesis, Argmax):
            with pytest.raises(BadInput, match="has no writer for ONNX"):
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

    def test_scikit_learn_says_the_same(self, hypothesis, norm, tmp_path):
        model = model_of(hypothesis, norm)
        if not usable(model):
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
@for_each("count", [1, 7, 8, 9, 62, *(pytest.param(count, marks=pytest.mark.slow) for count in (129, 300))])
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
    nodes = {"feature": [-1, 1, -1, -1, -1], "left": [-1, 2, -1, -1, -1], "right": [-1, 3, -1, -1, -1]}
    values = {"roots": [0, 1, 4], "threshold": [1.0, 0.5, 1e-9, -1e-9, 0.0], "base": -1.0}
    model = model_of(HYPOTHESES["trees"].parse({**nodes, **values}))
    data = rows(model.table, 40)
    found = predict(model, data).values.tolist()
    assert set(found) == {"yes", "no"}
    assert evaluated(onnx_bytes(model), model, data)["label"].tolist() == found


WEIGHTS = (3.0, -1.0, 0.5, 2.0, -2.0, 0.25, 0.0, 1.0, 0.5, 1.5, -1.0)
LINEAR = Linear(weights=WEIGHTS, threshold=0.75)
RECALIBRATED = Recalibrated(hypothesis=LINEAR, slope=2.0, intercepts=(0.5, -1.0), groups=(4,))


def wide(**changes) -> Model:
    return model_of(LINEAR, **changes)


class TestForms:
    def test_all_forms_of_the_same_rows_give_the_same(self, tmp_path):
        data = rows(wide().table, 80)
        frame = polars.DataFrame(data).with_columns(renews=polars.lit("perhaps"), more=polars.lit(1))
        frame.write_csv(tmp_path / "rows.csv")
        (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
        frame.write_parquet(tmp_path / "rows.parquet")
        for given in (
            frame,
            pandas.DataFrame({name: frame[name].to_list() for name in frame.columns}),
            frame.to_dicts(),
            str(tmp_path / "rows.csv"),
            tmp_path / "rows.csv.gz",
            tmp_path / "rows.parquet",
        ):
            np.testing.assert_array_equal(predict(wide(), given).values, predict(wide(), polars.DataFrame(data)).values)
        empty = polars.DataFrame({name: [] for name in wide().columns})
        assert predict(wide(), empty).values.shape == predict(wide(), []).values.shape == (0,)

    def test_a_file_with_a_header_is_read_whatever_the_scenario_says_of_its_own(self, tmp_path):
        data = polars.DataFrame(rows(wide().table, 30))
        layout = Layout(columns=tuple(data.columns), skip_lines=2)
        model = wide().model_copy(update={"table": wide().table.model_copy(update={"layout": layout})})
        data.select(reversed(data.columns)).write_csv(tmp_path / "headed.csv")
        (tmp_path / "own.csv").write_text("a preamble\nof two lines\n" + data.write_csv(include_header=False))
        for name in ("headed.csv", "own.csv"):
            np.testing.assert_array_equal(predict(model, tmp_path / name).values, predict(wide(), data).values)


class TestWhatIsRefused:
    def test_a_second_fit(self):
        with pytest.raises(BadInput, match="not fitted again"):
            as_pipeline(wide()).fit(rows(wide().table, 3), ["yes", "no", "yes"])

    @for_each(
        ("data", "why"),
        [
            ([{"visits": 1}], "row 1 has no field 'months'"),
            ([1], "row 1 must be a mapping"),
            (7, "rows must be in a file"),
            (polars.DataFrame({"visits": [1]}), "the data: has no column 'months'"),
            (pandas.DataFrame([[1, 2]], columns=["visits", "visits"]), "the data: column 'visits' is there 2 times"),
            (pandas.DataFrame({"visits": [1]}), "the data: has no column 'months'"),
            ("nowhere.csv", "there is no such file"),
        ],
    )
    def test_rows_that_are_none(self, data, why):
        with pytest.raises(BadData, match=why):
            predict(wide(), data)

    @for_each("value", ["seven", "inf", "NaN", "1e999"])
    def test_numbers_that_are_none_are_named_by_their_place_only(self, value):
        data = rows(wide().table, 3)
        data[1]["months"] = value
        with pytest.raises(BadData, match=r"line 2, column 'months': must be a finite number") as error:
            predict(wide(), data)
        assert value not in str(error.value)

    def test_columns_that_hold_no_fields(self):
        lists = polars.lit([[1], [2]], polars.List(polars.List(polars.Int8)))
        frame = polars.DataFrame(rows(wide().table, 2)).with_columns(town=lists)
        with pytest.raises(BadData, match="the data: column 'town' holds lists: give each entry a column of its own"):
            predict(wide(), frame)

    def test_strictness_refuses_what_is_otherwise_counted(self):
        fine = {"visits": 1, "months": 2, "spent": 3, "plan": "pro", "town": "Chur"}
        assert predict(wide(), [fine], strict=True).notes.sentences(wide().table) == []
        for odd in ({"visits": 31}, {"months": None}, {"plan": "gold"}, {"town": "?"}):
            with pytest.raises(BadData, match=next(iter(odd))):
                predict(wide(), [fine, {**fine, **odd}], strict=True)


def test_what_the_rules_did_to_rows_is_counted_once_a_row():
    fine = {"visits": 1, "months": 2, "spent": 3, "plan": "pro", "town": "Chur"}
    odd = [{"visits": 31}, {"visits": -2}, {"months": None}, {"months": 61}, {"plan": "gold"}, {"town": "?"}]
    notes = predict(wide(), [{**fine, **change} for change in odd]).notes
    assert notes.document() == {
        "clipped": {"visits": 2, "months": 1},  # -2 is beyond the bounds of the second feature of this column only
        "unlisted": {"plan": 1},
        "missing": {"months": 1, "town": 1},
    }
    assert notes.sentences(wide().table)[:2] == [
        "visits: 2 of 6 rows beyond 0 .. 10, clipped to these bounds",
        "months: 1 of 6 rows beyond 0 .. 60, clipped to these bounds",
    ]


def scored(hypothesis=LINEAR, calibrated=RECALIBRATED) -> Model:
    return model_of(hypothesis).model_copy(update={"calibrated": calibrated})


def test_a_pipeline_gives_a_frame_of_pandas_for_one_if_asked_to():
    people = pandas.DataFrame(rows(wide().table, 5), index=range(10, 15))
    found = as_pipeline(wide())[:-1].set_output(transform="pandas").transform(people)
    assert (list(found.index), list(found.columns)[-2:]) == (list(range(10, 15)), ["months=missing", "town=missing"])


class TestProbabilities:
    """They are those of the calibrated score, whatever the answer is; without one there are none."""

    def test_they_are_those_of_the_calibrated_odds(self):
        model = scored()
        data = rows(model.table, 40)
        intercepts = np.where([row["plan"] in ("family", "pro") for row in data], 0.5, -1.0)
        margins = as_pipeline(wide())[-1].decision_function(as_pipeline(wide())[:-1].transform(data))
        found = predict(model, data, probabilities=True)
        np.testing.assert_allclose(found.probabilities, 1.0 / (1.0 + np.exp(-(2.0 * margins + intercepts))), rtol=1e-5)
        np.testing.assert_allclose(as_pipeline(model).predict_proba(data)[:, 1], found.probabilities)
        assert (found.values == predict(wide(), data).values).all()  # the answer stays what was judged
        said = lines(model_of(RECALIBRATED))
        assert "  intercept where plan is family or pro: +0.5" in said
        assert "  intercept of all others: -1" in said

    def test_onnx_has_them_whatever_the_answer_is(self):
        for answer in (LINEAR, RECALIBRATED, Constant(label=-1)):
            model = scored(answer)
            data = rows(model.table, 30)
            given = evaluated(onnx_bytes(model), model, data)["probability"]
            np.testing.assert_allclose(given, predict(model, data, probabilities=True).probabilities, rtol=1e-12)

    def test_they_stay_in_bounds_for_any_margin(self):
        huge = scored(calibrated=Linear(weights=(1e30, -1e30), threshold=0.0))
        found = predict(huge, [{**row, "plan": "", "town": "", "spent": 1} for row in (
            {"visits": 30, "months": 0}, {"visits": -3, "months": 60})], probabilities=True)  # fmt: skip
        assert found.probabilities[0] == 1.0
        assert 0.0 <= found.probabilities[1] < 1e-300

    @for_each("hypothesis", examples(HYPOTHESES))
    def test_what_no_agents_calibrated_has_none(self, hypothesis):
        model = model_of(hypothesis)
        for asked in ({"probabilities": True}, {"costs": Costs(miss=2.0, false_alarm=1.0)}):
            with pytest.raises(BadInput, match="no agents calibrated the model's score"):
                predict(model, rows(model.table, 2), **asked)
        assert not hasattr(as_pipeline(model), "predict_proba")

    @for_each("costs", [(1, 1), (24, 1), (1, 3)])
    def test_the_cheaper_label_is_predicted(self, costs):
        """By its average cost at the stated probability, for any costs, and whatever the answer is."""
        miss, false_alarm = costs
        model = scored(Constant(label=-1))
        data = rows(model.table, 200, seed=5)
        given = Costs(miss=miss, false_alarm=false_alarm)
        found = predict(model, data, probabilities=True, costs=given)
        chosen, p = found.values == "yes", found.probabilities
        assert 0 < chosen.sum() < 200
        of_yes, of_no = (1.0 - p) * false_alarm, p * miss
        assert (np.where(chosen, of_yes, of_no) <= np.where(chosen, of_no, of_yes) + 1e-12).all()

    @for_each("cost", [0.0, -1.0, math.inf, math.nan, 1e7])
    def test_costs_that_are_none_are_refused(self, cost):
        for costs in ({"miss": cost, "false_alarm": 1.0}, {"miss": 1.0, "false_alarm": cost}):
            with pytest.raises(BadMessage, match=r"miss|false_alarm"):
                Costs.parse(costs)

    @for_each("answer", [LINEAR, RECALIBRATED, Constant(label=-1), Constant(label=1)])
    def test_people_are_ordered_as_by_the_probabilities_and_the_sign_is_the_answer(self, answer):
        calibrated = Linear(weights=tuple(3.0 * w for w in WEIGHTS), threshold=1.0)
        model = scored(answer, RECALIBRATED if answer == RECALIBRATED else calibrated)
        data = rows(model.table, 60)
        ranks = as_pipeline(model).decision_function(data)
        shares = predict(model, data, probabilities=True).probabilities
        assert (np.diff(ranks[np.argsort(shares, kind="stable")]) >= -1e-5).all()
        assert len(set(ranks.tolist())) > 30
        assert ((ranks > 0) == (predict(model, data).values == "yes")).all()

    def test_what_they_are_worth_is_said(self):
        assert "fit to the agents' answers about a score" in calibration(scored())


class TestUnits:
    @for_each("norm", [None, 0.9])
    def test_the_sum_over_columns_is_the_margin_of_a_row_in_bounds(self, norm):
        row: dict[str, Any] = {"visits": 4.5, "months": 20.0, "spent": 1234.5, "plan": "pro", "town": "Thun"}
        model, s = wide(norm=norm), 1.0
        if norm is not None:  # the row is shortened, and counts as the words say
            s = norm / np.linalg.norm(as_pipeline(wide())[:-1].transform([row]))
            assert s < norm
            assert "v then counts as low + s (v - low)" in lines(model)[-1]
        total = linear_terms(model)
        value = total.intercept
        for term in total.terms:
            low = term.low or 0.0
            own = row[term.column] if term.value is None else row[term.column] in term.value.split("/")
            value += term.effect * (low + s * (own - low))
        (margin,) = as_pipeline(model).decision_function([row])
        assert value == pytest.approx(margin, rel=1e-5)

    def test_a_regression_is_in_the_unit_of_its_response(self):
        model = model_of(Regressor(weights=(0.5, 0.25), intercept=0.125, response=2))
        total = linear_terms(model)
        row = {"visits": 10.5, "months": 30.0}
        value = math.fsum([total.intercept, *(term.effect * row[term.column] for term in total.terms)])
        (found,) = predict(model, [row]).values
        assert found == pytest.approx(value, rel=1e-6)
        assert found == pytest.approx(0.5 + (0.5 * 13.5 / 33 + 0.25 * 0.5 + 0.125) * (1e6 - 0.5), rel=1e-6)

    def test_names_and_bounds_are_shown_and_shortening_is_said(self):
        said = "\n".join(lines(wide()))
        assert "visits, a unit" in said
        assert "plan = family/pro" in said
        assert "over -3 .. 30: +3" in said
        assert "shortened" not in said
        assert "shortened" in "\n".join(lines(wide(norm=1.5)))
        assert "shortened" not in "\n".join(lines(wide(norm=3.0)))  # six features of length at most 1: never longer

    def test_of_thousands_of_columns_each_is_looked_up_once(self):
        columns = [{"kind": "number", "column": f"c{i}", "low": 0, "high": 1} for i in range(4096)]
        wordy = Model(
            scenario="given",
            table=Schema.parse({"features": columns, "label": LABEL}),
            hypothesis=Parity(features=tuple(range(4096))),
            classes=("no", "yes"),
        )
        began = time.process_time()
        assert lines(wordy)[-1] == "  c4095 > 0.5"
        assert time.process_time() - began < 3.0


class TestDocuments:
    def test_a_sum_that_does_not_follow_is_noticed(self):
        tree = json.loads(json.dumps(document_of(wide())))
        tree["sum_over_columns"]["intercept"] += 1.0
        with pytest.raises(BadMessage, match="sum_over_columns does not follow"):
            parse_document(tree)
        del tree["sum_over_columns"]
        tree["in_words"] = ["of another version"]
        assert parse_document(tree) == wide()

    @for_each("content", ["{", "[]", '{"format": "other"}', "[" * 100_000, "\xff"])
    def test_what_is_no_model_is_refused_in_one_line(self, content, tmp_path):
        (tmp_path / "model.json").write_bytes(content.encode("latin-1"))
        with pytest.raises(BadData, match="is no model"):
            load(tmp_path / "model.json")

    def test_a_hypothesis_that_needs_more_features_than_the_table_has(self):
        tree = document_of(wide())
        tree["table"]["features"] = tree["table"]["features"][:2]
        with pytest.raises(BadMessage, match="needs 11 features, the table has 2"):
            parse_document(tree)

    def test_other_suffixes_and_what_is_not_installed_are_named(self, tmp_path, monkeypatch):
        monkeypatch.setattr("common.models.export.find_spec", lambda name: None)
        for suffix, said in ("pmml", r"as \.json, \.onnx, \.joblib, found 'model\.pmml'"), ("onnx", r"hybrid\[onnx\]'"):
            with pytest.raises(BadInput, match=said):
                export(wide(), tmp_path / f"model.{suffix}")


@for_each(
    ("learner", "loss"),
    [
        (".loss=logistic", "logistic"),
        (".loss=hinge", "hinge"),
        ("={name: ncnvx-adap, features: 5, alpha: 0.3, radius: 10.0, iterations: 20, mu: 1.0}", "logistic"),
        ("={name: scikit, classifier: LogisticRegression, draws: 100}", "logistic"),
        ("={name: scikit, classifier: LinearSVC, draws: 100}", None),
    ],
)
def test_the_loss_is_that_of_the_scenario_s_learner(learner, loss):
    overrides = [f"curator.learner{learner}", "curator.epsilon=null", "curator.delta=null"]
    chosen = load_scenario("examples/own_data/scenario.yaml", overrides)
    answer = {"kind": "linear", "weights": [1.0] * 5, "threshold": 0.5}
    assert released(chosen, {"answer": answer, "privacy": None, "tasks": 3}).loss == loss


def test_labels_by_a_bound_are_named_by_it():
    assert label_classes(Label(column="income", above=50)) == ("at most 50", "above 50")


LABEL = {"column": "renews", "positive": ["yes", "y"], "negative": ["no", "n"]}
FEATURES: list[dict[str, Any]] = [
    {"kind": "number", "column": "visits", "low": -3, "high": 30, "fill": 3},
    {"kind": "number", "column": "months", "low": 0, "high": 60},
    {"kind": "number", "column": "spent", "low": 0.5, "high": 1e6},
    {"kind": "category", "column": "plan", "values": ["basic", ["family", "pro"]]},
    {"kind": "category", "column": "town", "values": ["Bern", "Thun", "Chur"]},
    {"kind": "number", "column": "visits", "low": 0, "high": 10},
    {"kind": "missing", "column": "months"},
    {"kind": "missing", "column": "town"},
]
"""Eleven features of five columns, one of which is used twice, two with a feature for where they are missing."""
TEXTS = {"plan": ["basic", "family", "pro", "gold", ""], "town": ["Bern", "Thun", "Chur", "Rom", "?"]}


def table(dimension: int = 11, norm: float | None = None) -> Schema:
    more = [{"kind": "number", "column": f"z{i}", "low": -1, "high": 1} for i in range(max(0, dimension - 11))]
    return Schema.parse({"features": [*FEATURES, *more], "label": LABEL, "norm": norm})


def model_of(hypothesis: Hypothesis, norm: float | None = None, **rest: Any) -> Model:
    chosen = table(hypothesis.min_features, norm)
    return Model(scenario="given", table=chosen, hypothesis=hypothesis, classes=("no", "yes"), **rest)


def usable(model: Model) -> bool:
    try:
        return bool(model.inputs)
    except BadInput:
        return False


def rows(schema: Schema, count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return raw rows: in bounds, beyond them, unlisted, missing."""
    generator = np.random.default_rng(seed)
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for feature in schema.features:
        for row in found:
            if feature.column in row:
                continue
            if feature.column in TEXTS:
                row[feature.column] = str(generator.choice(TEXTS[feature.column]))
            else:
                low, high = getattr(feature, "low", 0.0), getattr(feature, "high", 1.0)
                value = low + (high - low) * generator.uniform(-0.2, 1.2)
                row[feature.column] = None if generator.random() < 0.1 else float(value)
    return found
