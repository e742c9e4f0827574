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
    {"kind": "number", "column": "age", "low": 20, "high": 70, "fill": 35},
    {"kind": "number", "column": "visits", "low": 0, "high": 10},
    {"kind": "category", "column": "job", "values": ["clerk", ["nurse", "doctor"]]},
    {"kind": "missing", "column": "visits"},
    {"kind": "missing", "column": "job"},
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
    numbers = [0.3 if age is None else (age - 20) / 50, 0.5 if visits is None else visits / 10]
    features = [*np.clip(numbers, 0, 1), job == "clerk", job in ("nurse", "doctor"), visits is None, job is None]
    return np.array(features, dtype=np.float32), 1 if income > 50 else -1


@for_each("kind", thinned(["csv", "parquet", "npz"], 1, rest=pytest.mark.thorough))
@given(people=st.lists(PERSON, min_size=1, max_size=8), other=PERSON)
def test_everybody_becomes_what_they_would_become_alone(tmp_path_factory, kind, people, other):
    folder = tmp_path_factory.mktemp("people")
    found = load(folder, source(written(folder, people, kind)))
    for place, person in enumerate(people):
        features, label = by_hand(person)
        np.testing.assert_allclose(found.features[place], features, rtol=1e-6)
        assert found.labels[place] == label
    replaced = load(folder, source(written(folder, [other, *people[1:]], kind)))
    np.testing.assert_array_equal(found.features[1:], replaced.features[1:])


UNSURE = {"keep": "volunteers", "seed": 0}


def number(**changes):
    return {"features": [{"kind": "number", "column": "age", "low": 20, "high": 70} | changes]}


def category(*values):
    return {"features": [{"kind": "category", "column": "job", "values": list(values)}]}


def label(**changes):
    return {"label": {"column": "income"} | changes}


def unless(**condition):
    return {"selection": {**UNSURE, "unless": [{"column": "a", "factor": 0.5} | condition]}}


@for_each(
    ("wrong", "says"),
    [
        ({"files": []}, "files"),
        ({"features": []}, "features"),
        ({"norm": 0}, "norm"),
        ({"layout": {"columns": ["a", "a"]}}, "differ"),
        ({"surprise": 1}, "surprise"),
        (number(low=70), "below high"),
        (number(fill=19.0), "fill"),
        (number(fill=70.5), "fill"),
        (category("a", ["b", "a"]), "listed twice"),
        ({"features": [{"kind": "missing", "column": "age"}]}, "column 'age': kind: missing stands beside"),
        (label(positive=["a"], negative=["a"]), "both positive and negative"),
        (label(), "or a number to be above"),
        (label(positive=["1"]), "those that are negative"),
        (label(above=5, positive=["1"], negative=["0"]), "not both"),
        (label(below=5), "unknown key"),
        (unless(), "give either values"),
        (unless(values=["x"], above=3), "give either values"),
        (unless(values=["x"], factor=0), "factor"),
        (unless(values=["x"], factor=1.5), "factor"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(BadMessage, match=says):
        source("people.csv", **wrong)


def test_a_numeric_label_must_be_known_and_is_strict_at_its_bound(tmp_path):
    file = tmp_path / "people.csv"
    for income, says in (("?", "the label is missing"), ("rich", "must be a finite number")):
        file.write_text(f"age,visits,job,income\n20,1,clerk,{income}\n")
        with pytest.raises(BadData, match=f"line 2, column 'income': {says}"):
            load(tmp_path, source("people.csv"))
    file.write_text("age,visits,job,income\n1,1,a,50\n1,1,a,50.0001\n1,1,a,-7e3\n")
    np.testing.assert_array_equal(load(tmp_path, source("people.csv")).labels, [-1, 1, -1])


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
    content = yaml.safe_dump(tree) if isinstance(tree, dict) else tree
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


def test_a_schema_is_read_as_it_is_written(tmp_path):
    schema = read_schema(schema_written(tmp_path, TREE))
    assert schema == parse_schema(TREE) == Schema.model_validate(TREE)
    assert schema.features[0] == Number(column="visits", low=0, high=30, fill=3)
    assert (schema.dimension, schema.columns) == (5, ("visits", "months", "plan"))
    table = schema.source("one.csv", "two.npz")
    assert (table.files, table.dimension, table.norm) == (("one.csv", "two.npz"), 5, 1.5)
    assert table.label == Label.model_validate(TREE["label"])
    with pytest.raises(BadScenario, match="has no label"):
        parse_schema({"features": TREE["features"]}).source("one.csv")


@for_each(
    ("tree", "says"),
    [
        ("- a\n- list", "must be a mapping of keys, found list"),
        ("a: b: c", "is not YAML"),
        ("features: []", "features"),
        (TREE | {"surprise": 1}, "surprise: unknown key"),
        (TREE | {"label": {"column": "renews"}}, "label"),
        (TREE | {"files": ["people.csv"]}, "files: unknown key"),
        (b"\xff\xfe\xfa", "not UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_what_is_wrong_is_refused_with_the_name_of_the_file(tmp_path, tree, says):
    if tree is not None:
        schema_written(tmp_path, tree)
    with pytest.raises(BadScenario, match=f"schema schema.yaml.*{says}"):
        read_schema(tmp_path / "schema.yaml")


def scenario_with_a_schema(folder, changes, **table):
    """Read a scenario of which both sides name a schema."""
    tree = yaml.safe_load(EXAMPLE.read_text("utf-8")) | changes
    tree["source"] = {"table": {"files": ["testers.csv"], "schema": "schema.yaml", **table}}
    tree["target"] = {"table": {"files": ["customers.csv"], "schema": "schema.yaml"}}
    return load_scenario(str(schema_written(folder, tree, "renewals.yaml")))


def test_a_schema_beside_the_scenario_is_written_out_and_keys_beside_its_name_replace_its_own(tmp_path):
    schema_written(tmp_path, TREE)
    leavers = parse_schema(TREE).source("leavers.csv")  # no schema: stays as it is
    changes = {"public": {"table": leavers.wire()}, "data": None}
    scenario = scenario_with_a_schema(tmp_path, changes, norm=0.5, layout={"separator": ";"})
    assert (scenario.source.table.norm, scenario.source.table.layout.separator) == (0.5, ";")
    assert scenario.target.table == parse_schema(TREE).source("customers.csv")
    assert scenario.public.table == leavers
    for name in (3, "", None):
        with pytest.raises(BadScenario, match="must be the name of a YAML file"):
            scenario_with_a_schema(tmp_path, changes, schema=name)


def test_a_schema_in_the_directory_of_the_data_is_found(tmp_path):
    (tmp_path / "data").mkdir()
    schema_written(tmp_path / "data", TREE)
    assert scenario_with_a_schema(tmp_path, {"data": str(tmp_path / "data")}).source.dimension == 5
    with pytest.raises(BadScenario, match=r"no file schema\.yaml in"):
        scenario_with_a_schema(tmp_path, {"data": str(tmp_path)})


ROWS = 30_000
UNLESS = (
    {"column": "spouse", "values": ["yes"], "factor": 0.1},
    {"column": "age", "above": 40, "below": 60, "factor": 0.5},
)


@pytest.mark.slow
def test_each_group_volunteers_at_its_public_rate(tmp_path):
    """To 6 standard errors in each of the four groups; half of the people are asked."""
    random = np.random.default_rng(0)
    ages, spouses = random.integers(20, 80, ROWS), np.where(random.random(ROWS) < 0.4, "yes", "no")
    polars.DataFrame({"age": ages, "spouse": spouses, "income": ages}).write_csv(tmp_path / "people.csv")
    spouse = {"kind": "category", "column": "spouse", "values": ["yes"]}
    features = [{"kind": "number", "column": "age", "low": 0, "high": 100}, spouse]

    def kept(keep, **selection):
        selection = {"keep": keep, "seed": 1, "unless": UNLESS} | selection
        found = load(tmp_path, source("people.csv", features=features, selection=selection)).features
        return np.rint(found[:, 0].astype(np.float64) * 100), found[:, 1] == 1

    age, spouse = kept("population", unasked=0.3)
    assert abs(len(age) - 0.3 * ROWS) < 6 * np.sqrt(0.21 * ROWS)
    assert abs(spouse.mean() - 0.4) < 6 * np.sqrt(0.24 / len(age))
    assert abs(age.mean() - 49.5) < 6 * 17.4 / np.sqrt(len(age))
    everybody = kept("volunteers", unless=[], unasked=1e-9)
    volunteers = kept("volunteers", willing=0.8)

    def size(people, married, middle):
        age, spouse = people
        return np.sum((spouse == married) & (((age > 40) & (age <= 60)) == middle))

    for married, middle, chance in [(0, 0, 0.8), (0, 1, 0.4), (1, 0, 0.08), (1, 1, 0.04)]:
        of, rate = size(everybody, married, middle), chance / 2
        assert abs(size(volunteers, married, middle) - of * rate) < 6 * np.sqrt(of * rate * (1 - rate))


def chances(frame, *unless):
    selection = Selection.model_validate({**UNSURE, "unless": unless})
    return volunteering(Piece("f", frame, np.arange(len(frame))), selection, Layout()).tolist()


def test_conditions_do_not_hold_where_the_field_is_missing():
    frame = polars.DataFrame({"age": ["?", "50", "", "40", "61"], "spouse": ["yes", "?", "", "no", "no"]})
    assert chances(frame, *UNLESS) == [0.1, 0.5, 1, 1, 1]
    assert chances(frame, {"column": "age", "factor": 0.5, "above": 50}) == [1, 1, 1, 1, 0.5]
    assert chances(frame, {"column": "age", "factor": 0.5, "below": 40}) == [1, 1, 1, 0.5, 1]


@given(
    st.lists(st.floats(0.05, 1), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 7), st.floats(0.01, 1)), min_size=1, max_size=12),
)
def test_the_public_divergences_bound_those_of_every_population(factors, groups):
    # Kantorovich's inequality, whatever shares the groups have. Bit k of a group: condition k holds.
    unless = [{"column": "c", "values": ["v"], "factor": factor} for factor in factors]
    selection = Selection.model_validate({**UNSURE, "unless": unless})
    chances = np.array([np.prod([f for k, f in enumerate(factors) if group >> k & 1]) for group, _ in groups])
    shares = np.array([share for _, share in groups]) / sum(share for _, share in groups)
    mean = shares @ chances
    assert mean * (shares @ (1 / chances)) <= selection.chi_squared * (1 + 1e-9)
    assert mean / chances.min() <= selection.supremum * (1 + 1e-9)
