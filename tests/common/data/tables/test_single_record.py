"""One person's own fields become, to the bit, the record that they would be as a row of the table."""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tandem
from common.core.errors import BadData, BadScenario
from common.data.tables import TableSource, load
from common.data.tables.record import record_of
from tests.tiers import for_each, thinned

SOURCE = TableSource.parse(
    {
        "files": ["people.csv"],
        "label": {"column": "renews", "positive": ["yes", "1"], "negative": ["no"]},
        "features": [
            {"kind": "number", "column": "visits", "low": -1.5, "high": 30, "fill": 2.5},
            {"kind": "category", "column": "plan", "values": ["basic", ["family", "pro"], "true"]},
            {"kind": "number", "column": "months", "low": 0, "high": 7},
        ],
        "where": {"town": ["Bern", "Thun"]},
    }
)
PERSON = {"visits": 3, "plan": "pro", "months": 5, "renews": "yes", "town": "Bern", "shoes": 41}
FIELD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.sampled_from(
        ["", " ", "?", "seven", "1e3", "+5", ".5", "5.", "-0", "1_000", "0x10", "inf", "nan", "٣", "1e400"]
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


def text(value):
    """Return a field as somebody writes it into a CSV file."""
    if value is None or value != value:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("norm", thinned([1.1, None], 1))
@given(FIELD, FIELD, st.sampled_from(["basic", "family", " pro ", "gold", None, True]))
@example("+5", ".5", "pro").via("spellings that both take")
@example(1e308, -1e308, "pro").via("the greatest numbers")
def test_it_is_the_row_of_a_table(tmp_path_factory, norm, visits, months, plan):
    source = SOURCE.model_copy(update={"norm": norm})
    person = {**PERSON, "visits": visits, "months": months, "plan": plan}
    folder = tmp_path_factory.mktemp("table")
    polars.DataFrame({name: [text(value)] for name, value in person.items()}).write_csv(folder / "people.csv")
    try:
        found = record_of(person, source)
    except BadData:
        # What tables refuse is refused; so are spellings that nobody writes, of which tables take a few.
        return
    row = load(folder, source)
    np.testing.assert_array_equal(found.features, row.features)
    assert found.features.dtype == row.features.dtype
    assert found.labels.tolist() == row.labels.tolist()


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**30), 10**30))
def test_every_finite_number_is_taken(visits, months):
    low, high = -1.5, 30.0
    found = record_of({**PERSON, "visits": visits, "months": months}, SOURCE).features[0]
    assert found[0] == np.float32(min(max((visits - low) / (high - low), 0.0), 1.0))
    assert found[-1] == np.float32(min(max(months / 7, 0.0), 1.0))


@for_each(
    ("change", "why"),
    [
        ({"visits": "seven"}, "field 'visits' must be a finite number"),
        ({"visits": float("inf")}, "field 'visits' must be a finite number"),
        ({"visits": [3]}, "field 'visits' must be a number, a text, a boolean or null, found list"),
        ({"renews": "perhaps"}, "field 'renews': the label must be one of yes, 1, no"),
        ({"renews": None}, "field 'renews': the label must be one of"),
        ({"town": "Rom"}, "field 'town': the scenario asks people only with one of Bern, Thun"),
    ],
)
def test_what_is_no_record_is_refused_and_never_repeated(change, why):
    with pytest.raises(BadData, match=why) as error:
        record_of({**PERSON, **change}, SOURCE)
    assert str(next(iter(change.values()))) not in str(error.value)


@for_each("name", ["visits", "plan", "months", "renews", "town"])
def test_a_field_that_is_not_there_is_named(name):
    with pytest.raises(BadData, match=f"the record has no field '{name}'; it needs months, plan, renews, town, visits"):
        record_of({key: value for key, value in PERSON.items() if key != name}, SOURCE)


def test_a_label_by_a_bound():
    source = SOURCE.model_copy(update={"label": SOURCE.label.model_copy(update={"above": 2.0})})
    assert [record_of({**PERSON, "renews": value}, source).labels[0] for value in (2, 2.5)] == [-1, 1]
    with pytest.raises(BadData, match="the label is missing"):
        record_of({**PERSON, "renews": None}, source)


def test_the_face_gives_what_an_agent_takes():
    person = {"visits": 12, "months": 3, "plan": "pro", "renews": "yes"}
    found = tandem.record_of("examples/own_data/scenario.yaml", person)
    assert json.loads(json.dumps(found)) == {
        "features": [float(np.float32(0.4)), float(np.float32(0.05)), 0.0, 0.0, 1.0],
        "label": 1,
    }
    with pytest.raises(BadScenario, match="simulated"):
        tandem.record_of("ball", person)
