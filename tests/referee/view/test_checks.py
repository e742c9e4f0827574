"""``referee check``: everything that a table's description does not expect, found in one pass, for its owner alone."""

import json

import polars
import pytest
import yaml
from typer.testing import CliRunner

from common.core.errors import BadData
from common.data.tables import TableSource, load
from common.data.tables.examining import examine
from referee.cli import app
from tests.tiers import for_each

TABLE = {
    "files": ["ward.csv"],
    "label": {"column": "sick", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "age", "low": 18, "high": 90},
        {"kind": "category", "column": "smoker", "values": ["0", "1"]},
        {"kind": "category", "column": "sex", "values": ["f", "m"]},
    ],
}
HEADER = "age,smoker,sex,sick\n"
SOUND = HEADER + "30,0,f,yes\n40,1,m,no\n"


def found(folder, text, people=None, **changes):
    (folder / "ward.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return examine(folder, TableSource.parse(TABLE | changes), people)


def kinds(examined):
    return {(one.kind, one.column, one.count, one.lines) for one in examined.findings}


def test_a_sound_table(tmp_path):
    examined = found(tmp_path, SOUND, people=2)
    assert (examined.sound, examined.findings) == (True, [])
    assert (examined.rows, examined.kept, examined.positive, examined.negative) == (2, 2, 1, 1)


@for_each(
    ("row", "finding", "sound"),
    [
        ("91,0,f,yes", ("clipped", "age", 1, (4,)), True),
        ("-1e9,0,f,yes", ("clipped", "age", 1, (4,)), True),
        (",0,f,yes", ("missing", "age", 1, (4,)), True),
        ("30,0,?,yes", ("missing", "sex", 1, (4,)), True),
        ("30,2,f,yes", ("unlisted", "smoker", 1, (4,)), True),
        ("30,2.0,f,yes", ("unlisted", "smoker", 1, (4,)), True),
        ("30,0,F,yes", ("look-alike", "sex", 1, (4,)), False),
        ("old,0,f,yes", ("no-number", "age", 1, (4,)), False),
        ("nan,0,f,yes", ("no-number", "age", 1, (4,)), False),
        ("30,0,f,perhaps", ("label", "sick", 1, (4,)), False),
        ("30,0,f,", ("label", "sick", 1, (4,)), False),
        ("30,0,yes", ("broken-row", None, 1, ()), False),
    ],
)
def test_each_flaw_is_counted_with_its_line(tmp_path, row, finding, sound):
    examined = found(tmp_path, SOUND + row + "\n")
    assert kinds(examined) == {finding}
    assert examined.sound is sound
    assert all(one.remedy for one in examined.findings)
    if any(one.severity == "stops" for one in examined.findings):
        with pytest.raises(BadData):
            load(tmp_path, TableSource.parse(TABLE))
    else:
        assert len(load(tmp_path, TableSource.parse(TABLE))) == examined.kept


def test_all_flaws_are_found_in_one_pass(tmp_path):
    rows = ["95,0,f,yes", "96,2,f,yes", "1,2", "40,1,M,maybe", "41,1,m,no,no"]
    examined = found(tmp_path, SOUND + "\n".join(rows) + "\n")
    assert kinds(examined) == {
        ("clipped", "age", 2, (4, 5)),
        ("unlisted", "smoker", 1, (5,)),
        ("look-alike", "sex", 1, (7,)),
        ("label", "sick", 1, (7,)),
        ("broken-row", None, 2, ()),
    }
    assert "line 6 has 2 fields where there are 4 columns (and 1 more such row" in examined.findings[0].what


@pytest.mark.parametrize(
    ("header", "kind"), [("age,smoker,sex,sick,sex", "column-twice"), ("age,smoker,Sex,sick", "no-column")]
)
def test_columns_there_twice_or_not_at_all(tmp_path, header, kind):
    rows = "30,0,f,yes,f\n40,1,m,no,f\n" if kind == "column-twice" else "30,0,f,yes\n40,1,m,no\n"
    (wrong,) = (one for one in found(tmp_path, f"{header}\n{rows}").findings if one.severity == "stops")
    assert (wrong.kind, wrong.column) == (kind, "sex")
    assert kind == "column-twice" or "'Sex'" in wrong.remedy


def test_columns_that_are_not_used_are_named(tmp_path):
    examined = found(tmp_path, "age,smoker,sex,sick,ward\n30,0,f,yes,7\n40,1,m,no,7\n")
    assert examined.sound
    assert [one.what for one in examined.findings] == ["columns that the scenario does not use: ward"]


@pytest.mark.parametrize("label", ["yes", "no"])
def test_one_class_alone(tmp_path, label):
    examined = found(tmp_path, HEADER + f"30,0,f,{label}\n40,1,m,{label}\n")
    assert [(one.kind, one.count) for one in examined.findings] == [("one-class", 2)]
    assert not examined.sound


def test_fewer_rows_than_people(tmp_path):
    assert [one.kind for one in found(tmp_path, SOUND, people=3).findings] == ["too-few"]


def test_a_byte_order_mark_and_stray_spaces_are_no_flaw(tmp_path):
    assert found(tmp_path, b"\xef\xbb\xbf" + SOUND.replace(",", " , ").encode()).sound


@for_each(
    ("content", "what"),
    [
        (SOUND.encode("utf-16"), "line 1 is UTF-16 text"),
        (SOUND.encode() + b"30,0,\xe4,no\n", "line 4 is not UTF-8 text"),
        (SOUND + '30,0,"f,no\n', "is not well-formed CSV"),
        (b"", "the file has no such column"),
    ],
)
def test_what_cannot_be_read_on_is_said(tmp_path, content, what):
    examined = found(tmp_path, content)
    assert not examined.sound
    assert any(what in one.what for one in examined.findings)


def test_conditions_are_looked_at_as_well(tmp_path):
    examined = found(tmp_path, SOUND + "30,1.0,f,yes\n", where={"smoker": ["1"]})
    assert kinds(examined) == {("left-out", "smoker", 1, (2,))}
    assert examined.kept == 2


def test_a_parquet_file_of_floats_is_read_as_one_of_integers(tmp_path):
    polars.DataFrame({"age": [30, 40], "smoker": [0.0, 1.0], "sex": ["f", "m"], "sick": ["yes", "no"]}).write_parquet(
        tmp_path / "ward.parquet"
    )
    examined = examine(tmp_path, TableSource.parse(TABLE | {"files": ["ward.parquet"]}))
    assert (examined.sound, kinds(examined)) == (True, set())


@pytest.fixture
def scenario(tmp_path):
    tree = {
        "name": "ward",
        "title": "Who is sick",
        "protocol": "learn-and-test",
        "alpha": 0.1,
        "data": str(tmp_path),
        "source": {"table": TABLE},
        "target": {"table": TABLE | {"files": ["town.csv"]}},
        "curator": {"n": 2, "epsilon": 1.0, "delta": 1e-6, "rounds": 1, "kappa": None, "eta": 0.1},
        "agents": {"count": 2, "mechanism": {"name": "warner", "epsilon": 1.0}},
    }
    tree["curator"]["learner"] = {"name": "sgd", "loss": "logistic", "steps": 10000, "noise": "plan", "diameter": 2.0}
    (tmp_path / "ward.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / "ward.csv").write_text(SOUND + "95,1,F,yes\n")
    (tmp_path / "town.csv").write_text(SOUND)
    return tmp_path / "ward.yaml"


def test_the_command_says_that_its_output_is_private_and_ends_by_what_it_found(scenario):
    before = {path: path.read_bytes() for path in scenario.parent.rglob("*")}
    curators = CliRunner().invoke(app, ["check", str(scenario)])
    agents = CliRunner().invoke(app, ["check", str(scenario), "--side", "T"])
    assert curators.stdout.startswith("PRIVATE: ")
    assert agents.stdout.startswith("PRIVATE: ")
    assert (
        "probably not as it was meant:\n  ward.csv, column 'sex', 1 row (line 4): differs from a listed value in case"
        in curators.stdout
    )
    assert (curators.exit_code, agents.exit_code) == (1, 0), curators.output
    assert {path: path.read_bytes() for path in scenario.parent.rglob("*")} == before


def test_its_json_holds_the_same(scenario):
    done = CliRunner().invoke(app, ["check", str(scenario), "--json"])
    document = json.loads(done.stdout)
    assert (document["sound"], document["rows"], document["private"][:8]) == (False, 3, "PRIVATE:")
    assert {one["kind"] for one in document["findings"]} == {"look-alike", "clipped"}


def test_simulated_people_have_no_table():
    done = CliRunner().invoke(app, ["check", "ball"])
    assert done.exit_code == 2
    assert "there is no table to check" in done.output
