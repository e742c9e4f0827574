"""What is missing, unknown or out of bounds is treated by a public rule, person by person, in every kind of file."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadData, BadMessage
from common.data.tables import TableSource, load
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


@pytest.mark.parametrize("fill", [19.0, 70.5])
def test_a_default_beyond_the_bounds_is_refused(fill):
    with pytest.raises(BadMessage, match="fill"):
        source("people.csv", features=[FEATURES[0] | {"fill": fill}])


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


def test_a_numeric_label_is_strict_at_its_bound(tmp_path):
    (tmp_path / "people.csv").write_text("age,visits,job,income\n1,1,a,50\n1,1,a,50.0001\n1,1,a,-7e3\n")
    np.testing.assert_array_equal(load(tmp_path, source("people.csv")).labels, [-1, 1, -1])
