"""A field that is a listed number in another spelling is refused: as a row of a table and as a person's own field."""

import polars
import pytest

from common.core.errors import BadData
from common.people.tables import TableSource, encode, load
from common.people.tables.record import record_of
from common.people.tables.spelling import Respelled

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


@pytest.mark.parametrize("field", ["1.0", "01", "+1", "1e0", "0.10e1", "-0", " 1.0 "])
def test_one_hospital_writes_1_0_where_the_scenario_writes_1(tmp_path, field):
    with pytest.raises(BadData, match=r"ward\.csv: line 3, column 'smoker': a number of the list in another spelling"):
        ward(tmp_path, field)
    with pytest.raises(BadData, match="field 'smoker': a number of the scenario's list in another spelling"):
        record_of({"smoker": field, "site": "2", "sick": "no"}, SOURCE)


def test_a_column_of_floats_is_refused_where_integers_are_listed():
    with pytest.raises(BadData, match="another spelling"):
        encode(polars.DataFrame({"smoker": [1.0, 0.0]}), SOURCE)
    assert encode(polars.DataFrame({"smoker": [1, 0]}), SOURCE).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("field", ["2", "one", "", "?", "1.5", "1,0", "1e999999999999999999999"])
def test_other_unlisted_and_missing_fields_are_zeros_as_before(tmp_path, field):
    assert ward(tmp_path, f'"{field}"').features.tolist() == [[0, 1], [0, 0]]
    assert record_of({"smoker": field, "site": "2", "sick": "no"}, SOURCE).features.tolist() == [[0, 0]]


def test_a_row_is_not_left_out_in_silence_because_its_condition_is_spelled_otherwise(tmp_path):
    with pytest.raises(BadData, match="line 3, column 'site': a number of the list in another spelling"):
        ward(tmp_path, "1", site="3.0")
    with pytest.raises(BadData, match="field 'site'"):
        record_of({"smoker": "1", "site": "3.0", "sick": "no"}, SOURCE)
    assert len(ward(tmp_path, "1", site="4")) == 1


@pytest.mark.parametrize("values", [[["1", "1.0"]], ["1", "1.0"]])
def test_both_spellings_may_be_listed(tmp_path, values):
    feature = SOURCE.features[0].model_copy(
        update={"values": tuple(v if isinstance(v, str) else tuple(v) for v in values)}
    )
    chosen = SOURCE.model_copy(update={"features": (feature,)})
    (tmp_path / "ward.csv").write_text("smoker,site,sick\n1,2,yes\n1.0,2,no\n")
    assert load(tmp_path, chosen).features.sum() == 2


def test_numbers_are_compared_exactly():
    assert "100000000000000000001" not in Respelled(["100000000000000000000"], [])
    assert "1e20" in Respelled(["100000000000000000000"], [])
    assert "1.0" not in Respelled(["1"], ["1.0"])


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "ward.csv").write_text("smoker,site,sick,smoker\n1,2,yes,0\n")
    with pytest.raises(BadData, match=r"ward\.csv: column 'smoker' is there 2 times"):
        load(tmp_path, SOURCE)


def test_a_spreadsheet_in_utf_16_is_called_so(tmp_path):
    (tmp_path / "ward.csv").write_text("smoker,site,sick\n1,2,yes\n", encoding="utf-16")
    with pytest.raises(BadData, match="line 1 is UTF-16 text, not UTF-8: save the file as CSV in UTF-8"):
        load(tmp_path, SOURCE)
