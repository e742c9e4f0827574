"""Whatever the records come in, the model is the same; each record is read by public rules that look at it alone."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pytest
import yaml

from common.core.errors import BadFit
from common.people.tables import parse_schema
from tandem.estimators import TransferClassifier
from tandem.estimators.shared import running
from tests.tandem.estimators.people import QUICK, SCHEMA, as_csv, customers, square
from tests.tandem.estimators.plain import Plain

# Most fits here have few agents, who cannot judge: that is said, and tested in test_fitting_estimators.
pytestmark = pytest.mark.filterwarnings("ignore::tandem.estimators.shared.fitting.CannotHelpWarning")


@pytest.fixture(scope="module", autouse=True)
def plain():
    """Least squares without noise: what was read differently would be learned differently."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Embedded", Plain)
        yield


def quick(**changes):
    return TransferClassifier(**{"rounds": 1, "learner": QUICK, "random_state": 0} | changes)


def in_pandas(frame):
    return pandas.DataFrame({name: frame[name].to_list() for name in frame.columns})


@pytest.fixture(scope="module")
def reference():
    """The model of 300 customers tested on 200 others, from polars frames."""
    return quick(schema=SCHEMA).fit(customers(300, 1), population=customers(200, 2))


class TestForms:
    @pytest.mark.slow
    def test_arrays_and_frames_of_numbers(self):
        X, y = square(300, 1)
        plain = quick().fit(X, y)
        for frame in (pandas.DataFrame(X, columns=["a", "b"]), polars.DataFrame(X, schema=["a", "b"])):
            framed = quick().fit(frame, y)
            assert framed.hypothesis_ == plain.hypothesis_
            assert list(framed.feature_names_in_) == ["a", "b"]
            np.testing.assert_array_equal(framed.predict(frame), plain.predict(X))

    @pytest.mark.slow
    def test_the_labels_may_be_a_column(self):
        X, y = square(300, 1)
        plain = quick().fit(X, y)
        whole = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
        assert quick().fit(whole, "y").hypothesis_ == plain.hypothesis_
        assert quick().fit(polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), "y").hypothesis_ == plain.hypothesis_

    @pytest.mark.parametrize("form", ["pandas", "csv", "parquet", "array"])
    def test_a_schema_reads_them_all_alike(self, form, reference, tmp_path):
        people, others, fresh = customers(300, 1), customers(200, 2), customers(50, 3)
        features = ["visits", "months", "plan"]

        def given(frame, name):
            if form == "pandas":
                return in_pandas(frame)
            if form == "csv":
                return as_csv(frame, tmp_path / f"{name}.csv")
            path = tmp_path / f"{name}.parquet"
            frame.write_parquet(path)
            return str(path)

        if form == "array":
            arrays = [(np.array(f[features].rows(), dtype=object), f["renews"].to_numpy()) for f in (people, others)]
            model = quick(schema=SCHEMA, classes=("no", "yes")).fit(*arrays[0], population=arrays[1])
            predicted = model.predict(np.array(fresh[features].rows(), dtype=object))
        else:
            model = quick(schema=SCHEMA).fit(given(people, "a"), population=given(others, "b"))
            predicted = model.predict(given(fresh, "c"))
        assert model.hypothesis_ == reference.hypothesis_
        assert model.estimate_ == reference.estimate_
        np.testing.assert_array_equal(predicted, reference.predict(fresh))

    def test_the_schema_may_be_a_file(self, reference, tmp_path):
        (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA), "utf-8")
        model = quick(schema=tmp_path / "schema.yaml").fit(customers(300, 1), population=customers(200, 2))
        assert model.hypothesis_ == reference.hypothesis_
        assert list(model.classes_) == ["no", "yes"]

    def test_the_population_may_come_otherwise_than_the_sample(self, reference, tmp_path):
        others = as_csv(customers(200, 2), tmp_path / "customers.csv")
        model = quick(schema=SCHEMA).fit(in_pandas(customers(300, 1)), population=others)
        assert model.estimate_ == reference.estimate_


class TestRules:
    """Bounds and values are public; a record's treatment never depends on another's."""

    def test_beyond_the_bounds_is_at_the_bounds(self):
        model = quick(bounds=[(-1, 1), (0, 2)]).fit(*square(300, 1))
        inside, beyond = np.array([[1.0, 2.0], [-1.0, 0.0]]), np.array([[7.0, 2.5], [-1e300, -3.0]])
        np.testing.assert_array_equal(model.decision_function(inside), model.decision_function(beyond))

    def test_missing_is_the_middle_of_the_bounds_or_what_the_schema_says(self, reference):
        model = quick(bounds=(-1, 3)).fit(*square(300, 1))
        np.testing.assert_array_equal(model.decision_function([[np.nan, 0.5]]), model.decision_function([[1.0, 0.5]]))
        person = polars.DataFrame({"months": [20.0], "plan": ["pro"]})
        missing, low = (person.with_columns(visits=polars.lit(visits, polars.Float64)) for visits in (None, 0.0))
        np.testing.assert_array_equal(reference.decision_function(missing), reference.decision_function(low))

    def test_a_number_may_divide_the_classes(self):
        schema = {"features": SCHEMA["features"][1:], "label": {"column": "visits", "above": 15}}
        people = customers(300, 1).with_columns(polars.col("visits").fill_null(0.0))
        model = quick(schema=schema).fit(people)
        assert list(model.classes_) == [False, True]
        same = quick(schema=schema).fit(people, people["visits"].to_numpy() > 15)
        assert same.hypothesis_ == model.hypothesis_

    def test_unknown_and_missing_categories_are_no_category(self, reference):
        person = polars.DataFrame({"visits": [12.0], "months": [20.0]})
        unknown, missing = (person.with_columns(plan=polars.lit(plan, polars.String)) for plan in ("golden", None))
        np.testing.assert_array_equal(reference.decision_function(unknown), reference.decision_function(missing))

    def test_a_record_is_read_whatever_the_others_are(self, reference):
        fresh = customers(40, 4)
        together = reference.decision_function(fresh)
        alone = [reference.decision_function(fresh[at])[0] for at in range(len(fresh))]
        np.testing.assert_array_equal(together, alone)


REFUSALS = {
    "no such column": (SCHEMA, lambda: customers(90, 1).drop("plan"), "no column 'plan'"),
    "no such label": (SCHEMA, lambda: customers(90, 1).drop("renews"), "no column 'renews'"),
    "array of another width": (SCHEMA, lambda: np.zeros((90, 2)), "columns"),
    "no schema file": ("nowhere.yaml", lambda: customers(90, 1), "cannot be read: No such file"),
    "unknown key": (SCHEMA | {"colour": 1}, lambda: customers(90, 1), "colour: unknown key"),
    "no mapping": ([1], lambda: customers(90, 1), "schema must be a mapping"),
    "no file": (SCHEMA, lambda: "nowhere.csv", "there is no such file"),
    "a file without schema": (None, lambda: "people.csv", "need schema="),
    "text for a number": (SCHEMA, lambda: customers(90, 1).with_columns(visits=polars.lit("many")), "finite number"),
    "a third label": (SCHEMA, lambda: customers(90, 1).with_columns(renews=polars.lit("perhaps")), "90 of 90 people"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_read_is_refused(case):
    schema, data, said = REFUSALS[case]
    model = quick(schema=schema)
    with pytest.raises(BadFit, match=said):
        model.fit(data())
    assert not hasattr(model, "guarantee_")


def test_no_message_says_what_a_field_holds():
    X, y = square(60, 1)
    texts = np.array(X, dtype=object)
    texts[3, 0] = "a secret"
    frame = customers(60, 1).with_columns(months=polars.lit("a secret"))
    secret = np.where(np.arange(60) == 7, "a secret", np.where(y > 0, "b", "a"))
    for model, people in (
        (quick(), (texts, y)),
        (quick(schema=SCHEMA), (frame,)),
        (quick(classes=("a", "b")), (X, secret)),
        (quick(), (X, secret)),
        (quick(schema=SCHEMA), (customers(60, 1).with_columns(renews=polars.lit("a secret")),)),
    ):
        with pytest.raises(BadFit) as caught:
            model.fit(*people)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__


NO_LABEL = {"features": SCHEMA["features"]}
PEOPLE = customers(60, 1)
X, Y = square(60, 1)
FURTHER = {
    "no labels": (NO_LABEL, (PEOPLE,), "names no label"),
    "labels of others": (NO_LABEL, (PEOPLE, ["yes"] * 59), "60 people and y 59 values"),
    "missing labels": (None, (X, np.array([None, *Y[1:]], dtype=object)), "y has missing values"),
    "no such column for y": (None, (polars.DataFrame(X), "renews"), "'renews', which X does not have"),
    "a name that is taken": (None, (polars.DataFrame(X, schema=["a", "__label__"]), Y), "rename it"),
    "a bound that is no pair": (None, (X, Y), "must be a pair"),
    "a label that is no number": (
        NO_LABEL | {"label": {"column": "plan", "above": 3}},
        (PEOPLE,),
        "60 of 60 people have none",
    ),
}


@pytest.mark.parametrize("case", FURTHER)
def test_what_does_not_belong_together_is_refused(case):
    schema, people, said = FURTHER[case]
    bounds = 3.0 if said == "must be a pair" else (-1.0, 1.0)
    with pytest.raises(BadFit, match=said):
        quick(schema=schema, bounds=bounds).fit(*people)


def test_pandas_has_many_ways_to_say_nothing(reference):
    fresh = customers(40, 3)
    frame = in_pandas(fresh)
    frame["plan"] = frame["plan"].astype("string")
    frame["months"] = frame["months"].astype("Float64")
    np.testing.assert_array_equal(reference.predict(frame), reference.predict(fresh))


def test_a_schema_may_be_given_as_a_value(reference):
    model = quick(schema=parse_schema(SCHEMA)).fit(customers(300, 1), population=customers(200, 2))
    assert model.hypothesis_ == reference.hypothesis_
