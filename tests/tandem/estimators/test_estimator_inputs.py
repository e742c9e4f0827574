"""Whatever the records come in, the model is the same; each record is read by public rules that look at it alone."""

import itertools
import warnings

import numpy as np
import pandas
import polars
import pytest
import yaml
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import tandem
from common.core.errors import BadFit
from common.data.schema import parse_schema
from tandem.estimators import DomainAdapter, DomainAdapterRegressor, TransferClassifier, fitting
from tests.tandem.estimators.people import QUICK, SCHEMA, Plain, check_refused, customers, made, square
from tests.tiers import for_each

# Most fits here have few agents, who cannot judge: that is said, and tested in test_fitting_estimators.
pytestmark = pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")


@pytest.fixture(scope="module", autouse=True)
def plain():
    """Least squares without noise: what was read differently would be learned differently."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "Embedded", Plain)
        yield


def quick(**changes):
    learner = QUICK | {"noise": 50.0}  # enough for all people here, so that no fit waits for a plan of it
    return made(TransferClassifier, **{"rounds": 1, "learner": learner, "random_state": 0} | changes)


def in_pandas(frame):
    return pandas.DataFrame({name: frame[name].to_list() for name in frame.columns})


NO_LABEL = {"features": SCHEMA["features"]}
NUMBERS = NO_LABEL | {"label": {"column": "plan", "above": 3}}
PEOPLE = customers(60, 1)
X, Y = square(60, 1)


@pytest.fixture(scope="module")
def reference():
    """The model of 300 customers tested on 200 others, from polars frames."""
    return quick(schema=SCHEMA).fit(customers(300, 1), population=customers(200, 2))


@pytest.mark.slow
def test_arrays_and_frames_of_numbers_of_which_one_column_may_be_the_labels():
    X, y = square(300, 1)
    plain = quick().fit(X, y)
    columns = {"a": X[:, 0], "b": X[:, 1]}
    for frame, whole in ((make(columns), make({**columns, "y": y})) for make in (pandas.DataFrame, polars.DataFrame)):
        framed = quick().fit(frame, y)
        assert framed.hypothesis_ == quick().fit(whole, "y").hypothesis_ == plain.hypothesis_
        assert list(framed.feature_names_in_) == ["a", "b"]
        np.testing.assert_array_equal(framed.predict(frame), plain.predict(X))


def test_frames_do_what_they_do_with_classifiers_of_scikit_learn():
    """Arrays come out, whatever the index; names count, in their order; the same warning or error where they differ."""
    frame = pandas.DataFrame(X, columns=["a", "b"], index=[f"p{at}" for at in range(60)])
    frames = (
        (frame, frame), (X, frame), (frame, X), (frame, polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})),
        (frame, frame[["b", "a"]]), (frame, frame.assign(c=1.0)), (frame, frame[["a"]]),
        (frame.astype("Float64"), frame), (frame.round(1).astype("category"), frame), (frame.assign(a=Y > 0), frame),
        (frame.assign(c=pandas.Categorical(["u", "v"] * 30)), frame), (pandas.DataFrame(X), X),
        (frame.set_axis(["a", 1], axis=1), X), (frame.set_axis(["a", "a"], axis=1), X),
    )  # fmt: skip
    for given, fresh in frames:
        ours, theirs = (_outcome(model, given, fresh) for model in (quick(), LogisticRegression()))
        assert ours == theirs, (given, fresh)
    steps = make_pipeline(Normalizer(), quick()).set_output(transform="pandas").fit(frame, Y)
    assert list(steps[-1].feature_names_in_) == ["a", "b"]
    assert isinstance(steps.predict(frame), np.ndarray)


def _outcome(model, given, fresh):
    """Return what comes out, and the first line of a warning about names or what an error is, without their wording."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = model.fit(given, pandas.Series(Y, index=range(7, 67))).predict(fresh)
        except (TypeError, ValueError, polars.exceptions.PolarsError) as error:
            names = str(error).split("\n") if "passed during fit" in str(error) else "refused"
            return isinstance(error, TypeError), names
    about_names = [str(one.message)[:23] for one in said if "feature names" in str(one.message)]
    return type(found), found.dtype, found.shape, about_names


@for_each("form", ["pandas", "csv", "parquet", "array"])
def test_a_schema_reads_them_all_alike(form, reference, tmp_path):
    people, others, fresh = customers(300, 1), customers(200, 2), customers(50, 3)
    features = ["visits", "months", "plan"]

    def given(frame):
        if form == "pandas":
            return in_pandas(frame)
        path = tmp_path / f"{len(frame)}.{form}"
        getattr(frame, f"write_{form}")(path)
        return path if form == "csv" else str(path)

    if form == "array":
        arrays = [(np.array(f[features].rows(), dtype=object), f["renews"].to_numpy()) for f in (people, others)]
        model = quick(schema=SCHEMA, classes=("no", "yes")).fit(*arrays[0], population=arrays[1])
        predicted = model.predict(np.array(fresh[features].rows(), dtype=object))
    else:
        model = quick(schema=SCHEMA).fit(given(people), population=given(others))
        predicted = model.predict(given(fresh))
    assert model.hypothesis_ == reference.hypothesis_
    assert model.estimate_ == reference.estimate_
    np.testing.assert_array_equal(predicted, reference.predict(fresh))


def test_the_schema_may_be_a_file_or_a_value(reference, tmp_path):
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA), "utf-8")
    for schema in (tmp_path / "schema.yaml", parse_schema(SCHEMA)):
        model = quick(schema=schema).fit(customers(300, 1), population=customers(200, 2))
        assert model.hypothesis_ == reference.hypothesis_
        assert list(model.classes_) == ["no", "yes"]


# Bounds and values are public; a record's treatment never depends on another's.


def test_beyond_the_bounds_is_at_the_bounds(reference):
    model = quick(bounds=[(-1, 1), (0, 2)]).fit(*square(300, 1))
    inside, beyond = np.array([[1.0, 2.0], [-1.0, 0.0]]), np.array([[7.0, 2.5], [-1e300, -3.0]])
    np.testing.assert_array_equal(model.decision_function(inside), model.decision_function(beyond))
    fresh = customers(40, 4)
    together = reference.decision_function(fresh)
    alone = [reference.decision_function(fresh[at])[0] for at in range(len(fresh))]
    np.testing.assert_array_equal(together, alone)


def test_missing_is_the_middle_of_the_bounds_or_what_the_schema_says(reference):
    model = quick(bounds=(-1, 3)).fit(*square(300, 1))
    np.testing.assert_array_equal(model.decision_function([[np.nan, 0.5]]), model.decision_function([[1.0, 0.5]]))
    person = polars.DataFrame({"months": [20.0], "plan": ["pro"]})
    missing, middle = (person.with_columns(visits=polars.lit(visits, polars.Float64)) for visits in (None, 15.0))
    np.testing.assert_array_equal(reference.decision_function(missing), reference.decision_function(middle))
    person = polars.DataFrame({"visits": [12.0], "months": [20.0]})
    unknown, missing = (person.with_columns(plan=polars.lit(plan, polars.String)) for plan in ("golden", None))
    np.testing.assert_array_equal(reference.decision_function(unknown), reference.decision_function(missing))


def test_numbers_that_texts_write_with_a_decimal_comma_are_those_numbers():
    people = customers(300, 1).with_columns(months=polars.col("months") + 0.125)
    texts = people.with_columns(months=polars.col("months").cast(polars.String).str.replace(".", ",", literal=True))
    german = SCHEMA | {"layout": {"decimal": ","}}
    plain, model, typed = (quick(schema=s).fit(p) for s, p in ((SCHEMA, people), (german, texts), (german, people)))
    assert model.hypothesis_ == typed.hypothesis_ == plain.hypothesis_
    fresh = polars.DataFrame({"visits": [3.0], "months": ["1.012,125"], "plan": ["pro"]})
    np.testing.assert_array_equal(
        model.decision_function(fresh), model.decision_function(fresh.with_columns(months=polars.lit(1012.125)))
    )


def test_weights_are_those_of_the_columns_in_their_own_units(reference):
    people = customers(50, 9).with_columns(
        polars.col("visits").fill_null(7.0).clip(0, 30),
        polars.col("months").clip(0, 60),
        polars.col("plan").fill_null("?"),
    )
    basic, pro = ((people["plan"] == plan).to_numpy() for plan in ("basic", "pro"))
    columns = np.column_stack([people["visits"], people["months"], basic, pro]).astype(np.float64)
    expected = columns @ reference.coef_[0] + reference.intercept_[0]
    np.testing.assert_allclose(reference.decision_function(people), expected, rtol=1e-4, atol=1e-4)
    assert not hasattr(quick(), "coef_")


def test_what_is_wrong_is_named_all_at_once_and_weights_of_people_with_the_reason():
    for given, people, says in (
        ({"epsilon": "1", "agent_epsilon": None, "beta": "x"}, (X, Y), "epsilon must.*agent_epsilon must.*beta must"),
        ({"bounds": {"x5": (0, 1)}}, (X, Y), "bounds: 'x0', 'x1'"),
        ({"schema": SCHEMA}, (PEOPLE.drop("months", "plan"),), "no column 'months', 'plan' in the data"),
    ):
        check_refused(quick(**given), says, *people)
    with pytest.raises(BadFit, match="options: aplha, bate: unknown keys; known: alpha"):
        TransferClassifier(options={"bate": 2, "aplha": 1}).fit(X, Y)
    with pytest.raises(BadFit, match="fit takes no sample_weight: noise is calibrated"):
        quick().fit(X, Y, sample_weight=np.ones(60))
    with pytest.raises(TypeError, match="unexpected keyword arguments: groups"):
        quick().fit(X, Y, groups=None)


def test_a_missing_number_may_be_a_feature_of_its_own():
    people = customers(600, 1).with_columns(polars.col("visits").fill_null(0.0), renews=polars.lit("no"))
    silent = np.arange(600) % 3 == 0  # whoever says nothing of their visits renews, and nobody else
    people = people.with_columns(
        visits=polars.when(polars.Series(silent)).then(None).otherwise(polars.col("visits")),
        renews=polars.when(polars.Series(silent)).then(polars.lit("yes")).otherwise(polars.lit("no")),
    )
    features = [*SCHEMA["features"], {"kind": "missing", "column": "visits"}]
    model = quick(schema=SCHEMA | {"features": features}, epsilon=100.0).fit(people)
    assert model.hypothesis_.min_features == 5
    assert model.score(people, people["renews"].to_numpy()) > 0.95


def test_labels_are_scored_in_every_type_in_which_they_are_learned():
    people = customers(300, 1)
    answer = (people["renews"] == "yes").to_numpy()
    described = {**SCHEMA, "label": {"column": "renews", "positive": ["true"], "negative": ["false"]}}
    for schema in (described, NO_LABEL):
        for kind in (bool, int, float, object, str):
            model = quick(schema=schema, classes=None if "label" in schema else (False, True))
            model.fit(people.with_columns(renews=answer), None if "label" in schema else answer)
            right = np.mean((np.char.lower(model.predict(people).astype(str)) == "true") == answer)
            assert model.score(people, answer.astype(kind)) == right > 0.5
            found = model.predict(people)[answer] == model.classes_[1]
            assert model.score(people, polars.Series(answer), answer * 1.0) == np.mean(found)
    assert model.score(people, np.full(300, "maybe")) == 0.0
    with pytest.raises(BadFit, match="y has missing values"):
        model.score(people, [None, *answer[1:]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(people, answer[1:])


def test_a_number_may_divide_the_classes():
    schema = {"features": SCHEMA["features"][1:], "label": {"column": "visits", "above": 15}}
    people = customers(300, 1).with_columns(polars.col("visits").fill_null(0.0))
    model = quick(schema=schema).fit(people)
    assert list(model.classes_) == [False, True]
    above = people["visits"].to_numpy() > 15
    assert model.score(people, above) == model.score(people, above.astype(int)) > 0.5
    same = quick(schema=schema).fit(people, people["visits"].to_numpy() > 15)
    assert same.hypothesis_ == model.hypothesis_


def test_no_message_says_what_a_field_holds():
    texts = np.array(X, dtype=object)
    texts[3, 0] = "a secret"
    secret = np.where(np.arange(60) == 7, "a secret", np.where(Y > 0, "b", "a"))
    for given, people in (
        ({}, (texts, Y)),
        ({"classes": ("a", "b")}, (X, secret)),
        ({}, (X, secret)),
        ({"schema": SCHEMA}, (PEOPLE.with_columns(months=polars.lit("a secret")),)),
        ({"schema": SCHEMA}, (PEOPLE.with_columns(renews=polars.lit("a secret")),)),
    ):
        with pytest.raises(BadFit) as caught:
            quick(**given).fit(*people)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__


TEXTS = PEOPLE.with_columns(visits=polars.lit("many"), renews=polars.lit("perhaps"))
REFUSALS = {
    "no labels": (NO_LABEL, (PEOPLE,), "names no label"),
    "labels of others": (NO_LABEL, (PEOPLE, ["yes"] * 59), "60 people and y 59 values"),
    "no such column for y": (None, (polars.DataFrame(X), "renews"), "'renews', which X does not have"),
    "a name that is taken": (None, (polars.DataFrame(X, schema=["a", "__label__"]), Y), "rename it"),
    "a bound that is no pair": (None, (X, Y), "must be a pair"),
    "a label that is no number": (NUMBERS, (PEOPLE,), "60 of 60 people have none"),
    "no such column": (SCHEMA, (PEOPLE.drop("plan"),), "no column 'plan'"),
    "no such label": (SCHEMA, (PEOPLE.drop("renews"),), "no column 'renews'"),
    "array of another width": (SCHEMA, (np.zeros((90, 2)),), "columns"),
    "no schema file": ("nowhere.yaml", (PEOPLE,), "cannot be read: there is no schema of a table nowhere.yaml"),
    "unknown key": (SCHEMA | {"colour": 1}, (PEOPLE,), "colour: unknown key"),
    "no mapping": ([1], (PEOPLE,), "schema must be a mapping"),
    "no file": (SCHEMA, ("nowhere.csv",), "there is no such file"),
    "a file without schema": (None, ("people.csv",), "need schema="),
    "text for a number": (SCHEMA, (PEOPLE.with_columns(visits=TEXTS["visits"]),), "finite number"),
    "a third label": (SCHEMA, (PEOPLE.with_columns(renews=TEXTS["renews"]),), "60 of 60 people.*in the schema's label"),
}


@for_each("case", REFUSALS)
def test_what_cannot_be_read_or_does_not_belong_together_is_refused(case):
    schema, people, said = REFUSALS[case]
    model = quick(schema=schema, bounds=3.0 if said == "must be a pair" else (-1.0, 1.0))
    with pytest.raises(BadFit, match=said):
        model.fit(*people)
    assert not hasattr(model, "guarantee_")


# The labels of X are those of other people, also where both happen to be as many.


@for_each("estimator", [TransferClassifier, DomainAdapter, DomainAdapterRegressor])
@for_each("parameter", ["population", "public"])
def test_they_are_refused_before_any_charge(estimator, parameter):
    if (estimator, parameter) == (TransferClassifier, "public"):
        with pytest.raises(BadFit, match="no labels here: give public=X alone"):
            quick().fit(X, Y, public=(X, Y))
        return
    kinds = {"public": (X, Y)} if estimator is not TransferClassifier else {}
    for others, found in ((X, "X alone"), (X[:30], "X alone"), ([X, Y], "a list"), (X.tolist(), "a list")):
        says = rf"the {parameter} needs labels: give \(X, y\), a tuple.*found {found}"
        check_refused(estimator(random_state=0), says, X, Y, **{**kinds, parameter: others})


def test_a_lazy_frame_is_to_be_collected_first():
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    says = r"found a polars LazyFrame, which holds no rows yet: collect it first, with \.collect\(\)"
    check_refused(quick(), says, frame.lazy(), Y)
    check_refused(quick(), says, frame.with_columns(y=Y).lazy(), "y")
    check_refused(quick(), says, X, Y, population=(frame.lazy(), Y))
    check_refused(DomainAdapter(bounds="public", random_state=0), says, X, Y, public=(frame.lazy(), Y))
    check_refused(quick(schema=SCHEMA), says, PEOPLE.lazy())
    check_refused(quick(schema=SCHEMA), says, PEOPLE, population=PEOPLE.lazy())
    with pytest.raises(BadFit, match=says):
        quick().fit(frame, Y).predict(frame.lazy())


def test_a_saved_run_is_described_by_the_names_of_the_classes(tmp_path):
    named = np.where(Y > 0, "stays", "leaves")
    for at, (model, says) in enumerate(
        (
            (quick().fit(X, named), "label: leaves or stays"),
            (quick(classes=("stays", "leaves")).fit(X, named), "label: stays or leaves"),
            (quick().fit(X, Y > 0), "label: False or True"),
            (quick(schema=SCHEMA).fit(PEOPLE), "renews: no or yes"),
            (quick().fit(polars.DataFrame(X, schema=["a", "label"]), named), "__label__: leaves or stays"),
        )
    ):
        told = tandem.describe(model.save_run(tmp_path / str(at)))
        assert told[0] == f"predicts {says}"
        assert told[1:] == tandem.describe(model.to_model())[1:]


def test_pairs_that_are_none_are_refused():
    for schema, mine, others, why in (
        (None, (X, Y), (X, Y, Y), "a tuple of 3"),
        (None, (X, Y), (X,), "a tuple of 1"),
        (None, (X, Y), (X, Y[:9]), "inconsistent numbers of samples"),
        (None, (X, Y), (X, None), "y"),
        (SCHEMA, (PEOPLE,), (PEOPLE, ["yes"] * 9), "60 people and y 9 values"),
        (SCHEMA, (PEOPLE,), [PEOPLE, ["yes"] * 60], "found a list"),
    ):
        with pytest.raises(ValueError, match=why):
            quick(schema=schema).fit(*mine, population=others)


# A column's type is a fact about everybody; what it says of one person must not depend on it.


def test_labels_mean_the_same_in_every_type(reference):
    """A column's type is a fact about everybody; what it says of one person must not depend on it."""
    sides = customers(300, 1), customers(200, 2)
    for positive, negative in (("1", "0"), ("true", "false"), ("1.0", "0.0"), ("True", "False")):
        schema = {**SCHEMA, "label": {"column": "renews", "positive": [positive], "negative": [negative]}}
        for kind in (bool, int, float, object, "boolean", "Int64", "string"):
            mine, others = (
                in_pandas(side).assign(renews=pandas.Series([text == "yes" for text in side["renews"]]).astype(kind))
                for side in sides
            )
            model = quick(schema=schema).fit(mine, population=others)
            assert (model.hypothesis_, model.estimate_) == (reference.hypothesis_, reference.estimate_)


def test_missing_labels_are_refused_in_every_type():
    for labels in (
        pandas.array([1, 0, None], dtype="Int64"),
        pandas.Series([1, 0, pandas.NA], dtype=object),
        pandas.Series([True, None, False]),
        pandas.Series(["a", "b", None], dtype="string"),
        pandas.Series(["a", "b", None], dtype="category"),
        polars.Series([1, None, 0]),
        ["a", None, "b"],
    ):
        for schema in (None, {"features": [{"kind": "number", "column": "a", "low": 0, "high": 1}]}):
            with pytest.raises(BadFit, match="y has missing values: leave these people out"):
                quick(schema=schema).fit(pandas.DataFrame({"a": [0.1, 0.2, 0.3]}), labels)


def test_classes_of_any_type_are_found():
    y = np.where(Y > 0, True, False)
    for labels in (y, y.tolist(), y.astype(object), pandas.Series(y, dtype="boolean"), polars.Series(y.tolist())):
        assert list(quick().fit(X, labels, population=(X, y.astype(float))).classes_) == [False, True]
    with pytest.raises(BadFit, match="two different values"):
        quick(classes=("1", "1.0")).fit(X, Y)


def test_a_field_that_is_replaced_changes_nobody_elses_features(reference):
    whole = {name: customers(12, 5)[name].to_list() for name in ("visits", "months", "plan")}
    expected = reference.decision_function(polars.DataFrame(whole))
    for name, value in itertools.product(whole, (None, pandas.NA, np.nan, True, 3, 2.5, "4", "?", "pro ", "x", b"5")):
        changed = {**whole, name: [value, *whole[name][1:]]}
        for make in (
            pandas.DataFrame,
            lambda columns: pandas.DataFrame(columns).convert_dtypes(),
            lambda columns: pandas.DataFrame(columns, dtype=object),
            lambda columns: list(zip(*columns.values(), strict=True)),
            lambda columns: np.array(list(zip(*columns.values(), strict=True)), dtype=object),
        ):
            try:
                found = reference.decision_function(make(changed))
            except BadFit:
                assert name != "plan"  # what is no number is refused, and nothing else is
                assert value in (True, "x", "pro ")
                continue
            np.testing.assert_array_equal(found[1:], expected[1:])


def test_without_a_schema_as_well():
    model = quick(bounds=(-1, 3)).fit(X, Y)
    fresh = [[0.5, True], [1, False], [2, True]]
    expected = model.decision_function(fresh)
    np.testing.assert_array_equal(expected, model.decision_function(np.array(fresh, dtype=float)))
    for value in (None, pandas.NA, pandas.NaT, np.nan, "", "?", " 1.50 ", True, 7, b"2", np.float32(2)):
        changed = [[value, fresh[0][1]], *fresh[1:]]
        for make in (
            list,
            pandas.DataFrame,
            lambda rows: pandas.DataFrame(rows).convert_dtypes(),
            lambda rows: np.array(rows, dtype=object),
        ):
            np.testing.assert_array_equal(model.decision_function(make(changed))[1:], expected[1:])
    for odd in (pandas.Timestamp("2024-01-01"), pandas.Timedelta(1), "x", [1]):
        with pytest.raises(BadFit, match="column"):
            model.decision_function(pandas.DataFrame([[odd, 0.5]]))


def test_a_column_that_is_there_twice_is_refused_if_it_is_used(reference):
    frame = in_pandas(customers(20, 3))
    twice = pandas.concat([frame, frame[["visits"]]], axis=1)
    for act in (reference.predict, quick(schema=SCHEMA).fit, lambda rows: quick().fit(rows, "renews")):
        with pytest.raises(BadFit, match="column 'visits' is there 2 times: rename all but the one meant"):
            act(twice)
    spare = pandas.concat([frame, frame[["renews"]]], axis=1)
    np.testing.assert_array_equal(reference.predict(spare), reference.predict(frame))


def test_a_column_may_have_an_empty_name_as_an_index_has_that_pandas_wrote():
    points, y = square(400, 1)
    for names in (["", "b"], ["a", ""]):
        frame = polars.DataFrame(dict(zip(names, points.T, strict=True)))
        np.testing.assert_array_equal(quick().fit(frame, y).coef_, quick().fit(points, y).coef_)


@for_each(
    ("kind", "change"),
    [
        (TransferClassifier, {"options": [1]}),
        (TransferClassifier, {"learner": 3}),
        (DomainAdapter, {"settings": "alpha"}),
        (DomainAdapter, {"grid": [0.1]}),
    ],
)
def test_a_parameter_that_is_no_mapping_is_named(kind, change):
    X, y = square(60, 1)
    others = {"public": square(60, 2)} if kind is DomainAdapter else {}
    check_refused(kind(random_state=0, **change), f"{next(iter(change))} must be a mapping, found ", X, y, **others)


def test_public_responses_that_are_too_far_apart_are_refused():
    X = square(60, 1)[0]
    ends = np.array([1e308, -1e308, *X[2:, 0]])
    check_refused(DomainAdapterRegressor(random_state=0), "least and greatest response", X, X[:, 0], public=(X, ends))
