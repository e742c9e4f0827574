"""What is missing, unknown or out of bounds is treated by a public rule, person by person, in every kind of file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadData, BadMessage, BadScenario
from common.data.files import Piece
from common.data.loading import load, volunteering
from common.data.schema import Schema, parse_schema, read_schema
from common.data.tables import Label, Layout, Number, Selection, TableSource
from common.scenario.loading import load as load_scenario
from tests.tiers import for_each, thinned

FEATURES = [
    {"kind": "number", "column": "age", "low": 20, "high": 70, "fill": 45},
    {"kind": "number", "column": "visits", "low": 0, "high": 10},
    {"kind": "category", "column": "job", "values": ["clerk", ["nurse", "doctor"]]},
]
SCHEMA = {"age": polars.Float64, "visits": polars.Float64, "job": polars.String, "income": polars.Float64}


def source(file, **changes):
    return TableSource.parse(
        {"files": [file], "label": {"column": "income", "above": 50}, "features": FEATURES} | changes
    )


def written(folder, rows, kind):
    """Write people, None where a field is missing, and return the file's name."""
    frame = polars.DataFrame(rows, schema=SCHEMA, orient="row")
    name = f"people.{kind}"
    if kind == "csv":
        frame.write_csv(folder / name)
    elif kind == "parquet":
        frame.write_parquet(folder / name)
    else:
        columns = {field: frame[field].fill_null(float("nan")).to_numpy() for field in ("age", "visits", "income")}
        texts = np.array(frame["job"].fill_null("").to_list(), dtype=str)
        np.savez(folder / name, job=texts, **columns)
    return name


PERSON = st.tuples(
    st.floats(-1e9, 1e9) | st.none(),
    st.floats(-1e9, 1e9) | st.none(),
    st.sampled_from(["clerk", "nurse", "doctor", "astronaut", None]),
    st.floats(-100, 100),
)


def by_hand(person):
    age, visits, job, income = person
    numbers = [0.5 if age is None else (age - 20) / 50, 0.0 if visits is None else visits / 10]
    features = [*np.clip(numbers, 0, 1), job == "clerk", job in ("nurse", "doctor")]
    return np.array(features, dtype=np.float32), 1 if income > 50 else -1


@for_each("kind", thinned(["csv", "parquet", "npz"], 1))
@given(people=st.lists(PERSON, min_size=1, max_size=8))
def test_everybody_becomes_what_they_would_become_alone(tmp_path_factory, kind, people):
    folder = tmp_path_factory.mktemp("people")
    found = load(folder, source(written(folder, people, kind)))
    for place, person in enumerate(people):
        features, label = by_hand(person)
        np.testing.assert_allclose(found.features[place], features, rtol=1e-6)
        assert found.labels[place] == label


@for_each("kind", thinned(["csv", "parquet", "npz"], 1))
@given(people=st.lists(PERSON, min_size=2, max_size=6), other=PERSON)
def test_replacing_a_person_changes_nobody_else(tmp_path_factory, kind, people, other):
    folder = tmp_path_factory.mktemp("people")
    first = load(folder, source(written(folder, people, kind), norm=0.8))
    second = load(folder, source(written(folder, [other, *people[1:]], kind), norm=0.8))
    np.testing.assert_array_equal(first.features[1:], second.features[1:])
    np.testing.assert_array_equal(first.labels[1:], second.labels[1:])


@for_each(
    ("label", "says"),
    [
        ({"column": "income"}, "or a number to be above"),
        ({"column": "income", "positive": ["1"]}, "those that are negative"),
        ({"column": "income", "above": 5, "positive": ["1"], "negative": ["0"]}, "not both"),
        ({"column": "income", "below": 5}, "unknown key"),
    ],
)
def test_labels_that_say_too_much_or_too_little_are_refused(label, says):
    with pytest.raises(BadMessage, match=says):
        source("people.csv", label=label)


@pytest.mark.parametrize(("income", "says"), [("?", "the label is missing"), ("rich", "must be a finite number")])
def test_a_numeric_label_must_be_known(tmp_path, income, says):
    (tmp_path / "people.csv").write_text(f"age,visits,job,income\n20,1,clerk,{income}\n")
    with pytest.raises(BadData, match=f"line 2, column 'income': {says}"):
        load(tmp_path, source("people.csv"))
    (tmp_path / "people.csv").write_text("age,visits,job,income\n1,1,a,50\n1,1,a,50.0001\n1,1,a,-7e3\n")
    np.testing.assert_array_equal(load(tmp_path, source("people.csv")).labels, [-1, 1, -1])  # strict at its bound
    for fill in (19.0, 70.5):
        with pytest.raises(BadMessage, match="fill"):
            source("people.csv", features=[FEATURES[0] | {"fill": fill}])


EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "own_data" / "scenario.yaml"
TREE = {
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "visits", "low": 0, "high": 30, "fill": 3},
        {"kind": "number", "column": "months", "low": 0, "high": 60},
        {"kind": "category", "column": "plan", "values": ["family", ["basic", "free"]]},
        {"kind": "number", "column": "visits", "low": 0, "high": 1},
    ],
    "norm": 1.5,
}


def schema_written(folder, tree, name="schema.yaml"):
    (folder / name).write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
    return folder / name


def test_a_schema_is_read_as_it_is_written(tmp_path):
    schema = read_schema(schema_written(tmp_path, TREE))
    assert schema == parse_schema(TREE) == Schema.model_validate(TREE)
    assert schema.features[0] == Number(column="visits", low=0, high=30, fill=3)
    assert (schema.dimension, schema.columns) == (5, ("visits", "months", "plan"))
    table = schema.source("one.csv", "two.npz")
    assert table.files == ("one.csv", "two.npz")
    assert (table.label, table.dimension, table.norm) == (Label.model_validate(TREE["label"]), 5, 1.5)
    with pytest.raises(BadScenario, match="has no label"):
        parse_schema({"features": TREE["features"]}).source("one.csv")


@for_each(
    ("tree", "says"),
    [
        ("- a\n- list", "must be a mapping of keys, found list"),
        ("a: b: c", "is not YAML"),
        ("features: []", "features"),
        ({**TREE, "surprise": 1}, "surprise: unknown key"),
        ({**TREE, "norm": -1}, "norm"),
        ({**TREE, "label": {"column": "renews"}}, "label"),
        (TREE | {"files": ["people.csv"]}, "files: unknown key"),
    ],
)
def test_what_is_wrong_is_refused_with_the_name_of_the_file(tmp_path, tree, says):
    with pytest.raises(BadScenario, match=f"schema schema.yaml.*{says}"):
        read_schema(schema_written(tmp_path, tree))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(BadScenario, match=r"schema none\.yaml: cannot be read"):
        read_schema(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(BadScenario, match="not UTF-8"):
        read_schema(tmp_path / "bytes.yaml")


class TestInScenarios:
    def tree(self, **table):
        tree = yaml.safe_load(EXAMPLE.read_text("utf-8"))
        tree["source"] = {"table": {"files": ["testers.csv"], "schema": "schema.yaml", **table}}
        tree["target"] = {"table": {"files": ["customers.csv"], "schema": "schema.yaml"}}
        return tree

    def test_a_schema_beside_the_scenario_is_written_out_and_keys_beside_its_name_replace_its_own(self, tmp_path):
        schema_written(tmp_path, TREE)
        tree = self.tree(norm=0.5, layout={"separator": ";"})
        tree["public"] = {"table": parse_schema(TREE).source("leavers.csv").wire()}  # no schema: stays as it is
        scenario = load_scenario(str(schema_written(tmp_path, tree, "renewals.yaml")), ["data=null"])
        assert (scenario.source.table.norm, scenario.source.table.layout.separator) == (0.5, ";")
        assert scenario.target.table == parse_schema(TREE).source("customers.csv")
        assert scenario.public.table == parse_schema(TREE).source("leavers.csv")
        assert "schema" not in scenario.wire()["source"]["table"]

    def test_a_schema_in_the_directory_of_the_data_is_found(self, tmp_path):
        (tmp_path / "data").mkdir()
        schema_written(tmp_path / "data", TREE)
        path = str(schema_written(tmp_path, self.tree(), "renewals.yaml"))
        assert load_scenario(path, [f"data={tmp_path / 'data'}"]).source.dimension == 5
        with pytest.raises(BadScenario, match=r"no file schema\.yaml in"):
            load_scenario(path, [f"data={tmp_path}/../{tmp_path.name}"])

    @for_each("name", [3, "", None])
    def test_a_schema_that_is_no_name_is_refused(self, tmp_path, name):
        path = str(schema_written(tmp_path, self.tree(schema=name), "renewals.yaml"))
        with pytest.raises(BadScenario, match="must be the name of a YAML file"):
            load_scenario(path, ["data=null"])


ROWS = 30_000
UNLESS = (
    {"column": "spouse", "values": ["yes"], "factor": 0.1},
    {"column": "age", "above": 40, "below": 60, "factor": 0.5},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("selection")
    random = np.random.default_rng(0)
    age, spouse = random.integers(20, 80, ROWS), random.random(ROWS) < 0.4
    rows = [
        f"{i},{a},{'yes' if s else 'no'},{'rich' if a > 50 else 'poor'}"
        for i, (a, s) in enumerate(zip(age, spouse, strict=True))
    ]
    (folder / "people.csv").write_text("\n".join(["row,age,spouse,label", *rows]))
    return folder


def kept(folder, keep, where=None, **selection):
    source = TableSource.model_validate(
        {
            "files": ["people.csv"],
            "label": {"column": "label", "positive": ["rich"], "negative": ["poor"]},
            "features": [
                {"kind": "number", "column": "row", "low": 0, "high": ROWS},
                {"kind": "number", "column": "age", "low": 0, "high": 100},
                {"kind": "category", "column": "spouse", "values": ["yes"]},
            ],
            "where": where or {},
            "selection": {"keep": keep, "seed": 1, "unless": UNLESS} | selection,
        }
    )
    features = load(folder, source).features.astype(np.float64)
    return np.rint(features[:, 0] * ROWS).astype(int), np.rint(features[:, 1] * 100), features[:, 2] == 1


@pytest.mark.slow
def test_each_group_volunteers_at_its_public_rate(folder):
    # 6 standard errors in each of the four groups; half of the people are asked.
    fair, age, spouse = kept(folder, "population", unasked=0.3)
    assert abs(len(fair) - 0.3 * ROWS) < 6 * np.sqrt(0.21 * ROWS)
    assert abs(spouse.mean() - 0.4) < 6 * np.sqrt(0.24 / len(fair))
    assert abs(age.mean() - 49.5) < 6 * 17.4 / np.sqrt(len(fair))
    everybody = kept(folder, "volunteers", unless=[], unasked=1e-9)
    volunteers = kept(folder, "volunteers", willing=0.8)

    def size(people, married, middle):
        _, age, spouse = people
        return np.sum((spouse == married) & (((age > 40) & (age <= 60)) == middle))

    for married, middle, chance in [(0, 0, 0.8), (0, 1, 0.4), (1, 0, 0.08), (1, 1, 0.04)]:
        of, rate = size(everybody, married, middle), chance / 2
        assert abs(size(volunteers, married, middle) - of * rate) < 6 * np.sqrt(of * rate * (1 - rate))


def test_conditions_do_not_hold_where_the_field_is_missing():
    frame = polars.DataFrame({"age": ["?", "50", "", "40", "61"], "spouse": ["yes", "?", "", "no", "no"]})
    selection = Selection.model_validate({"keep": "volunteers", "seed": 0, "unless": UNLESS})
    chances = volunteering(Piece("f", frame, np.arange(5)), selection, Layout())
    np.testing.assert_allclose(chances, [0.1, 0.5, 1, 1, 1])
    for sides, expected in [({"above": 50}, [1, 1, 1, 1, 0.5]), ({"below": 40}, [1, 1, 1, 0.5, 1])]:
        unless = [{"column": "age", "factor": 0.5, **sides}]
        selection = Selection.model_validate({"keep": "volunteers", "seed": 0, "unless": unless})
        np.testing.assert_allclose(volunteering(Piece("f", frame, np.arange(5)), selection, Layout()), expected)


@given(
    st.lists(st.floats(0.05, 1), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 7), st.floats(0.01, 1)), min_size=1, max_size=12),
)
def test_the_public_divergences_bound_those_of_every_population(factors, groups):
    # Kantorovich's inequality, whatever shares the groups have. Bit k of a group: condition k holds.
    unless = [{"column": "c", "values": ["v"], "factor": factor} for factor in factors]
    selection = Selection.model_validate({"keep": "volunteers", "seed": 0, "unless": unless})
    chances = np.array([np.prod([f for k, f in enumerate(factors) if group >> k & 1]) for group, _ in groups])
    shares = np.array([share for _, share in groups]) / sum(share for _, share in groups)
    mean = shares @ chances
    assert mean * (shares @ (1 / chances)) <= selection.chi_squared * (1 + 1e-9)
    assert mean / chances.min() <= selection.supremum * (1 + 1e-9)


@for_each(
    "condition",
    [
        {"column": "a", "factor": 0.5},
        {"column": "a", "values": ["x"], "above": 3, "factor": 0.5},
        {"column": "a", "values": ["x"], "factor": 0},
        {"column": "a", "values": ["x"], "factor": 1.5},
    ],
)
def test_conditions_that_make_no_sense_are_refused(condition):
    with pytest.raises(BadMessage):
        Selection.parse({"keep": "volunteers", "seed": 0, "unless": [condition]})


DESCRIPTION = {
    "files": ["people.npz"],
    "label": {"column": "income", "above": 50},
    "features": [
        {"kind": "number", "column": "age", "low": 20, "high": 70},
        {"kind": "category", "column": "job", "values": ["clerk", "nurse"]},
    ],
}
COLUMNS = {
    "age": np.array([20.0, 45.0, np.nan, 90.0]),
    "job": np.array(["clerk", "doctor", "", "nurse"]),
    "income": np.array([51, 50, 10, 99]),
}
ARRAYS_FEATURES = [[0, 1, 0], [0.5, 0, 0], [0, 0, 0], [1, 0, 1]]


def arrays_source(**changes):
    return TableSource.parse(DESCRIPTION | changes)


def flaw(folder, **changes):
    with pytest.raises(BadData) as caught:
        load(folder, arrays_source(**changes))
    return caught.value.detail


def test_compressed_archives_and_columns_that_nobody_names(tmp_path):
    np.savez_compressed(tmp_path / "people.npz", secret=np.arange(4), **COLUMNS)
    np.testing.assert_array_equal(load(tmp_path, arrays_source()).features, ARRAYS_FEATURES)


def test_a_structured_array_brings_its_names(tmp_path):
    people = np.empty(4, dtype=[("age", ">f4"), ("job", "S8"), ("income", "<i2")])
    for name, column in COLUMNS.items():
        people[name] = column
    np.save(tmp_path / "people.npy", people)
    np.testing.assert_array_equal(load(tmp_path, arrays_source(files=["people.npy"])).features, ARRAYS_FEATURES)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_gets_its_names_from_the_layout(tmp_path, order):
    matrix = np.array([[20, 1, 60], [45, 0, 40]], dtype=np.float16, order=order)
    np.save(tmp_path / "people.npy", matrix)
    changes = {
        "files": ["people.npy"],
        "layout": {"columns": ["age", "retired", "income"]},
        "features": [DESCRIPTION["features"][0], {"kind": "number", "column": "retired", "low": 0, "high": 1}],
    }
    found = load(tmp_path, arrays_source(**changes))
    np.testing.assert_array_equal(found.features, [[0, 1], [0.5, 0]])
    np.testing.assert_array_equal(found.labels, [1, -1])
    assert "matrix of 3 columns" in flaw(tmp_path, files=["people.npy"])


@for_each(
    ("changed", "says"),
    [
        ({"age": np.arange(3.0)}, "same length"),
        ({"age": np.ones((4, 2))}, "same length"),
        ({"age": np.ones(4, dtype=complex)}, "neither numbers"),
        ({"age": np.array(["2020-01-01"] * 4, dtype="datetime64[D]")}, "neither numbers"),
        ({"age": np.array([1, np.inf, 2, 3])}, "line 2, column 'age': must be a finite number"),
        ({"job": np.array([b"\xff"] * 4)}, "not UTF-8"),
        ({"income": np.array([1.0, np.nan, 2, 3])}, "line 2, column 'income': the label is missing"),
    ],
)
def test_columns_that_are_none_are_refused(tmp_path, changed, says):
    np.savez(tmp_path / "people.npz", **COLUMNS | changed)
    assert says in flaw(tmp_path)


def test_pickled_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "people.npz", **COLUMNS | {"job": np.array([object()] * 4)})
    assert "not a readable NumPy file" in flaw(tmp_path)
    np.save(tmp_path / "people.npy", np.array([{"age": 1}]), allow_pickle=True)
    assert "not a readable NumPy file" in flaw(tmp_path, files=["people.npy"])


@for_each("suffix", [".npy", ".npz"])
@for_each("content", [b"", b"not an array", b"\x93NUMPY\x01\x00", b"PK\x03\x04 cut off"])
def test_damaged_files_are_refused(tmp_path, suffix, content):
    (tmp_path / f"people{suffix}").write_bytes(content)
    assert "not a readable NumPy file" in flaw(tmp_path, files=[f"people{suffix}"])
