"""A listed value is met in any spelling: as a row of a table and as a person's own field; look-alikes are refused."""

from __future__ import annotations

import polars
import pytest

from common.core.errors import BadData, BadMessage
from common.data.tables import TableSource, encode, load, parse_schema
from common.data.tables.record import record_of
from common.data.tables.source import apart
from common.data.tables.spelling import as_listed, look_alikes, matching
from tests.tiers import for_each

SOURCE = TableSource.parse(
    {
        "files": ["ward.csv"],
        "label": {"column": "sick", "positive": ["yes"], "negative": ["no"]},
        "features": [{"kind": "category", "column": "smoker", "values": ["0", "1"]}],
        "where": {"site": ["2", "3"]},
    }
)


def ward(folder, smoker, site="2"):
    (folder / "ward.csv").write_text(f"smoker,site,sick\n1,2,yes\n{smoker},{site},no\n")
    return load(folder, SOURCE)


def with_values(*values, **changes):
    feature = {"kind": "category", "column": "smoker", "values": list(values)}
    return TableSource.parse({**SOURCE.wire(), "features": [feature], **changes})


@for_each("field", ["1.0", "01", "+1", "1e0", "0.10e1", " 1.0 ", "True", "true"])
def test_one_hospital_writes_1_0_where_the_scenario_writes_1(tmp_path, field):
    assert ward(tmp_path, field).features.tolist() == [[0, 1], [0, 1]]
    assert record_of({"smoker": field, "site": "2", "sick": "no"}, SOURCE).features.tolist() == [[0, 1]]


def test_a_column_of_floats_is_read_as_one_of_integers():
    for column in ([1.0, 0.0], [1, 0], ["1.0", "0"], [True, False]):
        assert encode(polars.DataFrame({"smoker": column}), SOURCE).tolist() == [[0, 1], [1, 0]]


@for_each("field", ["2", "one", "", "?", "1.5", "1,0", "1e999999999999999999999"])
def test_other_unlisted_and_missing_fields_are_zeros(tmp_path, field):
    assert ward(tmp_path, f'"{field}"').features.tolist() == [[0, 1], [0, 0]]
    assert record_of({"smoker": field, "site": "2", "sick": "no"}, SOURCE).features.tolist() == [[0, 0]]


def test_a_condition_is_met_in_any_spelling(tmp_path):
    assert len(ward(tmp_path, "1", site="3.0")) == 2
    assert record_of({"smoker": "1", "site": 3.0, "sick": "no"}, SOURCE).features.tolist() == [[0, 1]]
    assert len(ward(tmp_path, "1", site="4")) == 1


def test_a_missing_one_is_met_in_any_spelling():
    source = with_values("0", "1", layout={"missing": ["-9"]})
    numbers = {"kind": "number", "column": "age", "low": 0, "high": 10, "fill": 5}
    source = TableSource.parse({**source.wire(), "features": [numbers]})
    found = encode(polars.DataFrame({"age": [10.0, -9.0, None]}), source)
    assert found.tolist() == [[1], [0.5], [0.5]]


def test_both_spellings_may_be_listed_as_one_value_and_not_as_two(tmp_path):
    (tmp_path / "ward.csv").write_text("smoker,site,sick\n1,2,yes\n1.0,2,no\n")
    assert load(tmp_path, with_values(["1", "1.0"])).features.tolist() == [[1], [1]]
    for one, other in (
        ("1", "1.0"),
        ("7", "007"),
        ("True", "true"),
        ("2024-01-01", "2024-01-01 00:00:00"),
        ("a", "a "),
    ):
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
        TableSource.parse({**SOURCE.wire(), **changes})


def test_a_schema_is_as_strict():
    tree = {"features": [{"kind": "category", "column": "smoker", "values": ["1"]}], "layout": {"missing": ["1.0"]}}
    with pytest.raises(Exception, match="one value in two spellings"):
        parse_schema(tree)


def test_a_listed_value_that_is_missing_in_the_same_spelling_is_listed():
    assert encode(polars.DataFrame({"smoker": ["?"]}), with_values("?", "1")).tolist() == [[1, 0]]


def test_numbers_are_compared_exactly():
    assert (
        matching([["100000000000000000000"]])[0] == matching([["1e20"]])[0] != matching([["100000000000000000001"]])[0]
    )
    assert look_alikes([["9007199254740993"], ["9007199254740992"]]) is None


def test_booleans_are_1_and_0_where_no_number_is_listed():
    assert matching([["True"], ["False"]]) == (("true", "1"), ("false", "0"))
    assert matching([["yes", "1"], ["no", "0"]]) == (("yes", "1", "true"), ("no", "0", "false"))
    assert matching([["true"], ["1"]]) == (("true",), ("1",))
    assert matching([["true"]], missing=["1.0"]) == (("true",),)


def test_what_is_sealed_is_spelled_as_it_is_listed():
    assert [as_listed(text, ("1", "true", "Basic")) for text in ("1.0", "TRUE", "Basic", "basic", "")] == [
        "1",
        "true",
        "Basic",
        "basic",
        "",
    ]


def test_tables_are_apart_by_values_and_not_by_spellings():
    def at(*sites, **changes):
        return with_values("0", "1", where={"site": list(sites)}, **changes)

    assert apart(at("1"), at("2"))
    assert not apart(at("1"), at("1.0"))
    assert not apart(at("true"), at("1"))
    # With other names for the columns, the same row may meet both conditions.
    columns = ["smoker", "site", "sick"]
    assert not apart(at("1", layout={"columns": columns}), at("2", layout={"columns": ["site", "smoker", "sick"]}))


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "ward.csv").write_text("smoker,site,sick,smoker\n1,2,yes,0\n")
    with pytest.raises(BadData, match=r"ward\.csv: column 'smoker' is there 2 times"):
        load(tmp_path, SOURCE)


def test_a_spreadsheet_in_utf_16_is_called_so(tmp_path):
    (tmp_path / "ward.csv").write_text("smoker,site,sick\n1,2,yes\n", encoding="utf-16")
    with pytest.raises(BadData, match="line 1 is UTF-16 text, not UTF-8: save the file as CSV in UTF-8"):
        load(tmp_path, SOURCE)
