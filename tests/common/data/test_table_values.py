"""One value has one canonical text, and one person one record, whatever type, container and neighbours there are."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import json
import math

import numpy as np
import pandas
import polars
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.exceptions import PanicException, PolarsError
from polars.selectors import float as floats

import tandem
from common.core.errors import BadData, BadMessage, BadScenario
from common.data.columns import canonical_texts, series_of
from common.data.loading import encode, encode_piece, load, rows_of, select_rows
from common.data.schema import parse_schema
from common.data.spelling import NUMBER, as_listed, canonical, canonical_text, look_alikes, matching
from common.data.tables import Layout, TableSource, record_of
from tests.tiers import for_each, thinned

ONE_TEXT = {
    "": [None, "", "  ", math.nan, np.float32("nan"), pandas.NA, pandas.NaT, np.datetime64("NaT")],
    "1": [1, 1.0, "1", " 1 ", "1.0", "1.00", "01", "+1", "1e0", "0.1e1", np.int8(1), np.float16(1)],
    "0": [0, -0.0, "-0", "0.00", ".0", "0e7", np.uint8(0)],
    "-0.5": [-0.5, "-.5", "-0.50", np.float32(-0.5), decimal.Decimal("-0.5")],
    "9007199254740993": [2**53 + 1, str(2**53 + 1), "9007199254740993.0", np.int64(2**53 + 1)],
    "100000000000000000000": [10**20, 1e20, "1e20", "1E+20", decimal.Decimal("1E+20")],
    "1e300": [1e300, 10**300, "1e300", "10e299"],
    "5e-324": [5e-324, "5e-324"],
    "2.5": [2.5, decimal.Decimal("2.50")],
    "0.1": [0.1, "0.1", ".10", "1e-1", decimal.Decimal("0.1")],
    "0.10000000149011612": [np.float32(0.1), float(np.float32(0.1))],
    "true": [True, np.True_, "True", "TRUE", "true", " tRUE ", b"True"],
    "false": [False, np.False_, "False", "FALSE", "false"],
    "2024-01-31": [
        dt.date(2024, 1, 31), dt.datetime(2024, 1, 31), "2024-01-31 00:00:00", "2024-01-31T00:00:00.000",
        pandas.Timestamp("2024-01-31"), np.datetime64("2024-01-31"), np.datetime64("2024-01-31T00", "h"),
    ],
    "2024-01-31T12:30:00.5": [
        dt.datetime(2024, 1, 31, 12, 30, 0, 500_000), "2024-01-31 12:30:00.500",
        pandas.Timestamp("2024-01-31 12:30:00.5"),
    ],
    "2024-01-31T11:30:00Z": [
        dt.datetime(2024, 1, 31, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=1))), "2024-01-31 12:30:00+01:00",
        "2024-01-31 11:30:00 UTC", pandas.Timestamp("2024-01-31 12:30", tz="Europe/Berlin"), "2024-01-31T06:00-0530",
    ],
    "12:30:00": [dt.time(12, 30), "12:30:00.000"],
    "a b": ["a b", " a b\t", b"a b", np.str_("a b")],
    # What only looks like a number, a boolean or a date is a text.
    "1_000": ["1_000"], "٣": ["٣"], "0x10": ["0x10"], "1,5": ["1,5"], "inf": [math.inf, "inf"], "nan": ["nan"],
    "2024-02-30 12:00:00": ["2024-02-30 12:00:00"], "10.0.0.1": ["10.0.0.1"], "1e999999": ["1e999999"], "T": ["T"],
}  # fmt: skip


@for_each("text", ONE_TEXT)
def test_each_value_has_the_text_that_its_other_forms_have(text):
    assert [canonical_text(value) for value in ONE_TEXT[text]] == [text] * len(ONE_TEXT[text])
    assert canonical(text) == text


TEXT = st.one_of(
    st.text(max_size=12),
    st.from_regex(NUMBER, fullmatch=True),
    st.text(alphabet="0123456789+-.eE TZ:\x1f\u2003", max_size=14),
    st.floats().map(repr),
    st.datetimes().map(str),
    st.sampled_from(["True", "FALSE", "trUe", "fal\u017fe", "2024-01-01 00:00", "2024-01-01 00:00:00.10+01"]),
)


@given(st.lists(TEXT, max_size=8))
@example(["0." + "0" * 20 + "1", "0." + "0" * 21 + "1", "1" * 40, "1" * 41, "0" * 50 + "1"])
def test_compiled_code_for_columns_agrees_with_the_rule_for_one_value(texts):
    expected = [canonical(text) for text in texts]
    assert canonical_texts(polars.Series(texts, dtype=polars.String)).fill_null("").to_list() == expected
    assert [canonical(text) for text in expected] == expected


@given(st.datetimes(), st.sampled_from(["us", "ns", "ms"]))
def test_times_keep_their_value(moment, unit):
    column = polars.Series([moment], dtype=polars.Datetime("us")).cast(polars.Datetime(unit), strict=False)
    if column[0] == moment:
        assert canonical_texts(column).to_list() == [canonical_text(moment)]


@given(st.lists(st.floats() | st.floats(width=32) | st.integers(-(2**53), 2**53).map(float), max_size=8))
def test_floats_keep_their_value(numbers):
    for kind in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            array = np.array(numbers, dtype=np.float64).astype(kind)
        texts = canonical_texts(array)
        assert texts.fill_null("").to_list() == [canonical_text(number) for number in array]
        np.testing.assert_array_equal(texts.cast(polars.Float64).fill_null(np.nan).to_numpy(), array.astype(np.float64))


@for_each(
    ("column", "what"),
    [
        (polars.Series([[1]]), "lists: give each entry a column of its own"),
        (polars.Series([{"a": 1}]), "structs"),
        (polars.Series([dt.timedelta(1)]), "durations: convert it to a number, such as its seconds"),
        (pandas.Series([dt.timedelta(1)]), "durations"),
        (polars.Series([b"\xff"]), "bytes that are no UTF-8 text"),
        (np.array([b"\xff"]), "bytes that are no UTF-8 text"),
        (np.array([1j]), "complex numbers"),
        ([[1]], "list"),
        (pandas.Series([object()]), "object"),
        (["\ud800"], "halves of characters"),
        ([10**4000], "an integer of more than 10,000 bits"),
        (np.zeros((2, 2)), "(rows,)"),
    ],
)
def test_what_has_no_text_is_named_by_its_type(column, what):
    with pytest.raises(BadData) as error:
        canonical_texts(column, "visits")
    assert "column 'visits'" in error.value.detail
    assert what in error.value.detail


def test_a_column_name_with_half_a_character_is_refused():
    with pytest.raises(BadData, match=r"column name '\\ud800' holds a half of a character"):
        series_of("\ud800", ["1"])


SOURCE = TableSource.parse(
    {
        "files": ["people.csv"],
        "label": {"column": "renews", "positive": ["true"], "negative": ["false"]},
        "features": [
            {"kind": "number", "column": "visits", "low": 0, "high": 30, "fill": 7},
            {"kind": "category", "column": "active", "values": ["True", "False"]},
            {"kind": "category", "column": "plan", "values": ["1", "2", "3"]},
            {"kind": "category", "column": "since", "values": ["2024-01-31", "2024-02-29", "never"]},
        ],
    }
)
COLUMNS = ("visits", "active", "plan", "since", "renews")
PEOPLE = (
    (1, True, 1, dt.date(2024, 1, 31), True),
    (30, False, 2, dt.date(2024, 2, 29), False),
    (7, True, 3, dt.date(2024, 1, 31), False),
    (29, False, 1, dt.date(2024, 3, 1), True),
)
HALVES = tuple((visits + 0.5, active, float(plan), dt.datetime(2024, 1, 31), renews)
               for visits, active, plan, _, renews in PEOPLE)  # fmt: skip
TEXTS = tuple((f"{visits}.50", str(active), str(plan), "never", str(renews))
              for visits, active, plan, _, renews in PEOPLE)  # fmt: skip


def forms(rows, folder):
    """Yield people in every form that takes them, each column with the type that the library finds for it."""
    columns = {name: [row[at] for row in rows] for at, name in enumerate(COLUMNS)}
    frame = pandas.DataFrame(columns)
    makers = {
        "mappings": lambda: [dict(zip(COLUMNS, row, strict=True)) for row in rows],
        "pandas": lambda: frame,
        "pandas, nullable types": frame.convert_dtypes,
        "pandas, objects": lambda: pandas.DataFrame(columns, dtype=object),
        "pandas, categories": lambda: frame.astype("category"),
        "pandas of NumPy": lambda: pandas.DataFrame({name: np.array(values) for name, values in columns.items()}),
        "polars": lambda: polars.DataFrame(columns),
        "polars, objects": lambda: polars.DataFrame(
            [polars.Series(name, values, dtype=polars.Object) for name, values in columns.items()]
        ),
        "CSV of pandas": lambda: frame.to_csv(folder / "pandas.csv", index=False) or folder / "pandas.csv",
        # A text "NaN", which polars writes for one, is refused as a number: see docs/scenarios.md.
        "CSV of polars": lambda: (
            polars.DataFrame(columns).with_columns(floats().fill_nan(None)).write_csv(folder / "polars.csv")
            or folder / "polars.csv"
        ),
        "Parquet": lambda: polars.DataFrame(columns).write_parquet(folder / "p.parquet") or folder / "p.parquet",
        "NumPy": lambda: (
            np.savez(folder / "p.npz", allow_pickle=False, **{name: np.array(of) for name, of in columns.items()})
            or folder / "p.npz"
        ),
    }
    for name, make in makers.items():
        with contextlib.suppress(TypeError, ValueError, ArithmeticError, RuntimeError, PolarsError, PanicException):
            yield name, make()


def records(data):
    found = select_rows(rows_of(data, SOURCE.columns, SOURCE.layout), SOURCE).records
    return [(*row, label) for row, label in zip(found.features.tolist(), found.labels.tolist(), strict=True)]


FIELD = st.one_of(
    st.sampled_from([None, math.nan, pandas.NA, pandas.NaT, "", " ", "?", True, False, np.True_, 0, 1, 2, 3, 1.0, 2.5]),
    st.sampled_from(["1", "1.0", "true", "TRUE", "never", " never ", "x", "-7", "1e300", "31", b"true"]),
    st.sampled_from([np.int8(3), np.float32(2.5)]),
    st.sampled_from([dt.date(2024, 2, 29), dt.datetime(2024, 1, 31), dt.datetime(2024, 1, 31, 5, 6, 7)]),
    st.sampled_from([pandas.Timestamp("2024-01-31"), "2024-01-31 00:00:00", decimal.Decimal("2.50"), dt.time(5)]),
    st.integers(-(10**30), 10**30),
    st.floats(),
)  # fmt: skip


@for_each(
    ("people", "row", "column", "value"),
    [
        pytest.param(PEOPLE, 0, 1, None, id="one missing boolean makes a column of objects"),
        pytest.param(PEOPLE, 0, 2, None, id="one missing integer makes a column of floats"),
        pytest.param(HALVES, 1, 3, dt.datetime(2024, 1, 31, 5, 6), id="one time of a day is written for everybody"),
        pytest.param(TEXTS, 2, 4, True, id="a boolean among texts"),
    ],
)
def test_one_value_that_makes_its_column_another_type_changes_no_other_record(tmp_path, people, row, column, value):
    assert others_are_unchanged(tmp_path, people, row, column, value) >= 8


@pytest.mark.slow
@given(st.sampled_from([PEOPLE, HALVES, TEXTS]), st.integers(0, 3), st.integers(0, len(COLUMNS) - 1), FIELD)
def test_a_field_that_is_replaced_changes_no_other_record(tmp_path_factory, people, row, column, value):
    read = others_are_unchanged(tmp_path_factory.mktemp("people"), people, row, column, value)
    assert read or COLUMNS[column] in ("visits", "renews")


def others_are_unchanged(folder, people, row, column, value):
    """Check it in every form of the people; return in how many they could be read."""
    expected = records([dict(zip(COLUMNS, person, strict=True)) for person in people])
    changed = [list(person) for person in people]
    changed[row][column] = value
    read = 0
    for form, data in forms(changed, folder):
        try:
            found = records(data)
        except BadData:
            # A record that cannot be read is refused alone, too.
            with pytest.raises(BadData, match=f"column '{COLUMNS[column]}'"):
                records([dict(zip(COLUMNS, changed[row], strict=True))])
            continue
        del found[row]
        assert found == [record for at, record in enumerate(expected) if at != row], form
        read += 1
    return read


def test_all_forms_of_the_same_people_are_the_same_records(tmp_path):
    for people in (PEOPLE, HALVES, TEXTS):
        single = [record_of(dict(zip(COLUMNS, person, strict=True)), SOURCE) for person in people]
        expected = [(*one.features[0].tolist(), int(one.labels[0])) for one in single]
        found = {name: records(data) for name, data in forms(people, tmp_path)}
        assert found == dict.fromkeys(found, expected)
        assert len(found) >= 11  # NumPy pickles dates


SPELLING_SOURCE = TableSource.parse(
    {
        "files": ["ward.csv"],
        "label": {"column": "sick", "positive": ["yes"], "negative": ["no"]},
        "features": [{"kind": "category", "column": "smoker", "values": ["0", "1"]}],
        "where": {"site": ["2", "3"]},
    }
)


def ward(folder, smoker, site="2"):
    (folder / "ward.csv").write_text(f"smoker,site,sick\n1,2,yes\n{smoker},{site},no\n")
    return load(folder, SPELLING_SOURCE)


def with_values(*values):
    feature = {"kind": "category", "column": "smoker", "values": list(values)}
    return TableSource.parse({**SPELLING_SOURCE.wire(), "features": [feature]})


@for_each(
    ("site", "field", "features"),
    [
        *(("2", field, [0, 1]) for field in ("1.0", "01", "+1", "1e0", "0.10e1", " 1.0 ", "True", "true")),
        *(("2", field, [0, 0]) for field in ("2", "one", "", "?", "1.5", "1,0", "1e999999999999999999999")),
        ("3.0", "1", [0, 1]),
    ],
)
def test_one_hospital_writes_1_0_where_the_scenario_writes_1(tmp_path, site, field, features):
    assert ward(tmp_path, f'"{field}"', site).features.tolist() == [[0, 1], features]
    assert record_of({"smoker": field, "site": site, "sick": "no"}, SPELLING_SOURCE).features.tolist() == [features]
    assert len(ward(tmp_path, "1", site="4")) == 1
    for column in ([1.0, 0.0], [1, 0], ["1.0", "0"], [True, False]):
        assert encode(polars.DataFrame({"smoker": column}), SPELLING_SOURCE).tolist() == [[0, 1], [1, 0]]


def test_a_missing_one_is_met_in_any_spelling_and_is_a_value_where_it_is_listed():
    age = {"kind": "number", "column": "age", "low": 0, "high": 10, "fill": 5}
    source = TableSource.parse({**SPELLING_SOURCE.wire(), "features": [age], "layout": {"missing": ["-9"]}})
    assert encode(polars.DataFrame({"age": [10.0, -9.0, None]}), source).tolist() == [[1], [0.5], [0.5]]
    assert encode(polars.DataFrame({"smoker": ["?"]}), with_values("?", "1")).tolist() == [[1, 0]]


def test_both_spellings_may_be_listed_as_one_value_and_not_as_two(tmp_path):
    (tmp_path / "ward.csv").write_text("smoker,site,sick\n1,2,yes\n1.0,2,no\n")
    assert load(tmp_path, with_values(["1", "1.0"])).features.tolist() == [[1], [1]]
    dates = ("2024-01-01", "2024-01-01 00:00:00")
    for one, other in (("1", "1.0"), ("7", "007"), ("True", "true"), dates, ("a", "a ")):
        with pytest.raises(BadMessage, match="one value in two spellings") as error:
            with_values(one, other)
        assert f'[["{one}", "{other}"]]' in error.value.detail


@for_each(
    "changes",
    [
        {"label": {"column": "sick", "positive": ["1"], "negative": ["1.0"]}},
        {"label": {"column": "sick", "positive": ["9"], "negative": ["1"]}, "layout": {"missing": ["9.0"]}},
        {"where": {"site": ["9"]}, "layout": {"missing": ["9.0"]}},
        {"layout": {"missing": ["1.0"]}},
    ],
)
def test_look_alikes_are_refused_wherever_they_are_listed(changes):
    with pytest.raises(BadMessage, match="one value in two spellings"):
        TableSource.parse({**SPELLING_SOURCE.wire(), **changes})
    tree = {"features": [{"kind": "category", "column": "smoker", "values": ["1"]}], "layout": {"missing": ["1.0"]}}
    with pytest.raises(BadScenario, match="one value in two spellings"):
        parse_schema(tree)
    assert look_alikes([["9007199254740993"], ["9007199254740992"]]) is None


def test_booleans_are_1_and_0_where_no_number_is_listed():
    assert matching([["True"], ["False"]]) == (("true", "1"), ("false", "0"))
    assert matching([["yes", "1"], ["no", "0"]]) == (("yes", "1", "true"), ("no", "0", "false"))
    assert matching([["true"], ["1"]]) == (("true",), ("1",))
    assert matching([["true"]], missing=["1.0"]) == (("true",),)
    texts = ("1.0", "TRUE", "Basic", "basic", "")
    assert [as_listed(text, ("1", "true", "Basic")) for text in texts] == ["1", "true", "Basic", "basic", ""]


RECORD_SOURCE = TableSource.parse(
    {
        "files": ["people.csv"],
        "label": {"column": "renews", "positive": ["yes", "1"], "negative": ["no"]},
        "features": [
            {"kind": "number", "column": "visits", "low": -1.5, "high": 30, "fill": 2.5},
            {"kind": "category", "column": "plan", "values": ["basic", ["family", "pro"], "true"]},
            {"kind": "missing", "column": "plan"},
            {"kind": "missing", "column": "months"},
            {"kind": "number", "column": "months", "low": 0, "high": 7},
        ],
        "where": {"town": ["Bern", "Thun"]},
    }
)
PERSON = {"visits": 3, "plan": "pro", "months": 5, "renews": "yes", "town": "Bern", "shoes": 41}
RECORD_FIELD = st.one_of(
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
    if value is None or value != value:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("norm", thinned([1.1, None], 1))
@given(RECORD_FIELD, RECORD_FIELD, st.sampled_from(["basic", "family", " pro ", "gold", None, True]))
@example("+5", ".5", "pro").via("spellings that both take")
@example(1e308, -1e308, "pro").via("the greatest numbers")
def test_it_is_the_row_of_a_table(tmp_path_factory, norm, visits, months, plan):
    source = RECORD_SOURCE.model_copy(update={"norm": norm})
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


READ = ("4,879", "1.234,5", "1 234", "1.234")
WRITTEN = (*READ, "4.879", "1,234.5", "1\u00a0234", "1,5", "-,5", "1e3", "007", "12.05.2024", ",", "x")


@for_each(
    ("layout", "read_as"),
    [
        ({}, [None, None, None, 1.234]),
        ({"decimal": ","}, [4.879, 1234.5, 1234.0, 1234.0]),
        ({"thousands": ","}, [4879.0, None, None, 1.234]),
        ({"decimal": ",", "thousands": "."}, [4.879, 1234.5, None, 1234.0]),
        ({"thousands": " "}, [None, None, 1234.0, 1.234]),
    ],
)
def test_a_number_is_read_as_its_layout_writes_it_in_files_frames_and_single_records(tmp_path, layout, read_as):
    """A float is the number that it is, in any layout; so a file of text and one of types give the same records."""
    features = [{"kind": "number", "column": "visits", "low": 0, "high": 10_000}]
    label = {"column": "renews", "positive": ["yes"], "negative": ["no"]}
    source = TableSource.parse({"files": ["people.csv"], "label": label, "features": features, "layout": layout})
    values = [4.125, 1000.5, 2.0, None]
    frame = polars.DataFrame({"visits": values, "renews": ["yes"] * 4})
    expected = encode(frame, source)
    assert expected[:, 0].tolist() == np.float32([0.0004125, 0.10005, 0.0002, 0.5]).tolist()
    frame.write_parquet(tmp_path / "people.parquet")
    typed = source.model_copy(update={"files": ("people.parquet",)})
    np.testing.assert_array_equal(load(tmp_path, typed).features, expected)
    for value, row in zip(values, expected, strict=True):
        np.testing.assert_array_equal(record_of({"visits": value, "renews": "yes"}, source).features[0], row)
    known = {}
    for text in WRITTEN:
        (tmp_path / "people.csv").write_text(f'visits,renews\n"{text}",yes\n', "utf-8")
        one = {"visits": text, "renews": "yes"}
        texts, found = polars.DataFrame([one]), []
        for read, of in (
            (load, tmp_path),
            (encode, texts),
            (encode, texts.with_columns(polars.col("visits").cast(polars.Categorical))),
            (encode_piece, next(rows_of([one], source.columns, source.layout))),
            (record_of, one),
        ):
            try:
                got = read(of, source)
                found.append(getattr(got, "features", got).tolist())
            except BadData:
                found.append(None)
        assert found == found[:1] * 5, text
        known[text] = found[0] and round(10_000 * found[0][0][0], 3)
    assert [known[text] for text in READ] == read_as


def test_listed_texts_are_written_as_the_files_write_theirs(tmp_path):
    (tmp_path / "people.csv").write_text('dose;sick\n"1,5";"0,0"\n"1.000";1\n')
    features = [{"kind": "category", "column": "dose", "values": ["1,5", "1000"]}]
    label = {"column": "sick", "positive": ["1"], "negative": ["0"]}
    layout = {"separator": ";", "decimal": ","}
    source = TableSource.parse({"files": ["people.csv"], "label": label, "features": features, "layout": layout})
    found = load(tmp_path, source)
    assert (found.features.tolist(), found.labels.tolist()) == ([[1, 0], [0, 1]], [-1, 1])
    with pytest.raises(BadMessage, match="leave them out where people contribute"):
        TableSource.parse({"contributed": True, "label": label, "features": features, "layout": layout})
    with pytest.raises(BadMessage, match="must differ"):
        Layout.parse({"decimal": ",", "thousands": ","})
    assert set(Layout.parse({"separator": ";"}).wire()) == {"columns", "separator", "skip_lines", "comment", "missing"}


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**30), 10**30))
def test_every_finite_number_is_taken(visits, months):
    found = record_of({**PERSON, "visits": visits, "months": months}, RECORD_SOURCE).features[0]
    assert found[0] == np.float32(min(max((visits + 1.5) / 31.5, 0.0), 1.0))
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
        ({"town": ...}, "no field 'town'; it needs months, plan, renews, town, visits"),
    ],
)
def test_what_is_no_record_is_refused_and_never_repeated(change, why):
    person = {name: value for name, value in {**PERSON, **change}.items() if value is not ...}
    with pytest.raises(BadData, match=why) as error:
        record_of(person, RECORD_SOURCE)
    assert not any(str(value) in str(error.value) for value in change.values())


def test_the_face_gives_what_an_agent_takes():
    person = {"visits": 12, "months": 3, "plan": "pro", "renews": "yes"}
    found = tandem.record_of("examples/own_data/scenario.yaml", person)
    assert json.loads(json.dumps(found)) == {
        "features": [float(np.float32(0.4)), float(np.float32(0.05)), 0.0, 0.0, 1.0],
        "label": 1,
    }
    with pytest.raises(BadScenario, match="simulated"):
        tandem.record_of("ball", person)
