"""``referee init``: two tables become a scenario that explains itself; nothing in it comes from what a field holds."""

import json
import re
from contextlib import nullcontext

import numpy as np
import polars
import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from common.core import strictyaml
from common.core.errors import BadData
from common.data.examining import examine
from common.data.loading import load as load_table
from common.data.spelling import look_alikes
from common.data.tables import Category, Label, Missing, Number, TableSource
from common.local.losses import Costs
from common.scenario.fitting import Start, accuracy, advised, scenario_tree, usual_delta
from common.scenario.loading import load
from common.scenario.scenario import parse
from referee.cli import app
from referee.view.asking import looks_like
from referee.view.scenario_text import scenario_text
from tests.tiers import for_each

HEADER = "age,sex,town,sick\n"
ROWS = "30,f,Bern,yes\n95,x,Thun,no\n"
LABEL = ["--label", "sick", "--positive", "yes", "--negative", "no"]
FLAGS = [*LABEL, "--bounds", "age=18:90", "--categories", "sex=f,m", "--skip", "town"]
FEATURES = (Number(column="age", low=18, high=90), Category(column="sex", values=("f", "m")))


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward.csv").write_text(HEADER + ROWS * 1000)
    (tmp_path / "city.csv").write_text(HEADER + ROWS * 2000)
    return tmp_path


def init(*arguments, of=("ward.csv", "city.csv"), answers=None, status=0, says=""):
    """Run ``referee init``, check how it ends and that it says something, and return what it printed."""
    done = CliRunner().invoke(app, ["init", *of, *arguments], input=answers)
    assert (done.exit_code, says in " ".join(done.output.split())) == (status, True), (says, done.output)
    return done


def test_flags_say_everything_and_what_the_fields_hold_changes_nothing(tables):
    done = init(*FLAGS, "--epsilon", "2", "--agent-epsilon", "1.5", "--yes")
    written = load("ward.yaml")
    assert (written.curator.n, written.agents.count, written.people) == (2000, 4000, "real")
    assert (written.curator.epsilon, written.curator.delta) == (2.0, 1e-5)
    assert written.agents.mechanism.wire()["epsilon"] == 1.5
    for table in (written.source.table, written.target.table):
        assert (table.label, table.features) == (Label(column="sick", positive=("yes",), negative=("no",)), FEATURES)
    assert [line.split() for line in done.stdout.splitlines()[-3:]] == [
        ["referee", command, "ward.yaml"] for command in ("plan", "check", "run")
    ]
    assert written.agents.costs is None
    first = init(*FLAGS, "--yes", "--output", "first.yaml")
    for name, times in (("ward", 1000), ("city", 2000)):
        (tables / f"{name}.csv").write_text(HEADER + "-7,q,Rome,maybe\n1e9,,,\n" * times)
    second = init(*FLAGS, "--yes", "--output", "second.yaml")
    assert first.stdout.replace("first", "second") == second.stdout
    assert (tables / "first.yaml").read_bytes() == (tables / "second.yaml").read_bytes()


def test_a_column_that_a_file_has_twice_is_not_offered(tables):
    for name in ("ward.csv", "city.csv"):
        text = (tables / name).read_text()
        (tables / name).write_text(text.replace("town", "age", 1))
    says = "cannot be used: age. Rename them."
    init(*LABEL, "--bounds", "age=18:90", "--yes", status=2, says=says)
    init(*LABEL, "--categories", "sex=f,m", "--yes", says=says)


def test_questions_without_a_terminal_name_what_a_script_should_give(tables):
    for answers in ("", "sick\nyes\n"):
        init(answers=answers, status=1, says="the input ended before this question was answered: give the option")
    assert not (tables / "ward.yaml").exists()


def test_questions_ask_what_no_option_says_and_show_no_field(tables):
    done = init(answers="sick\nyes\nno\n24:1\nn\n18:90\nc\nf, m\ns\nsex\n")
    assert load("ward.yaml").source.table.features == (*FEATURES, Missing(column="sex"))
    assert load("ward.yaml").agents.costs == Costs(miss=24.0, false_alarm=1.0)
    assert "become public" in done.stdout
    assert not re.search(r"Bern|Thun|95", done.stdout)


def test_several_classes_become_columns_of_their_own_and_a_scenario_that_a_run_accepts(tables):
    flags = ["--label", "town", "--bounds", "age=18:90", "--categories", "sex=f,m", "--skip", "sick", "--yes"]
    init(*flags, "--classes", "Bern, Thun,Biel", says="predicted: 'town': one of Bern, Thun, Biel")
    written = load("ward.yaml")
    assert written.protocol == "portfolio-classes"
    assert written.curator.learner.class_columns == (3, 3)
    for table in (written.source.table, written.target.table):
        assert table.features == (*FEATURES, Category(column="town", values=("Bern", "Thun", "Biel")))
        assert table.label == Label(column="town", positive=("Bern",), negative=("Thun", "Biel"))
    asked = "Are these 3 texts of 'town' classes of their own"
    init(*flags[:-1], "--output", "asked.yaml", answers="Bern\nThun,Biel\ny\n", says=asked)
    assert load("asked.yaml") == written
    for wrong, message in (
        (["--classes", "Bern,Thun"], "--classes wants 3 to 10 different texts"),
        (["--classes", "a,b,a"], "--classes wants 3 to 10 different texts"),
        (["--classes", "a,b,c", "--positive", "a"], "leave --positive and --negative out"),
        (["--classes", "a,b,c", "--costs", "2:1"], "leave it out beside --classes"),
    ):
        init(*flags, *wrong, "--output", "other.yaml", status=2, says=message)


def test_a_wrong_key_is_asked_again_back_goes_back_and_what_was_written_is_said(tables):
    """Each question gets a wrong answer first; the label is corrected from two questions later."""
    (tables / "ward.csv").write_text("member_id,createdAt,age,sex,sick\n" + "7,x,30,f,yes\n" * 2000)
    (tables / "city.csv").write_text("member_id,createdAt,age,sex,sick\n" + "8,x,30,f,no\n" * 4000)
    columns = ["z", "", "", "n", "x", "18:90", "c", "", "f,f", "f,m", "town", "age"]
    answers = "\n".join(["ill", "sex", "<", "sick", "yes", "yes", "no", "24", "24:1", *columns]) + "\n"
    done = init(answers=answers)
    written = load("ward.yaml").source.table
    assert written.features == (Number(column="age", low=18, high=90), Missing(column="age"), FEATURES[1])
    assert written.id == "member_id"
    for words in (
        *("must have column 'ill'", "both positive and negative", "such as 10:1, found '24'", "listed twice"),
        *("By its name it is an id", "By its name it is a date"),
        "ward.yaml: 2,000 people trust the curator, 4,000 their own device",
        "predicted: 'sick': yes is yes; no is no",
        "from: age (18 to 90); whether age is missing; sex (f, m)",
        "who is who: member_id",
        "left out: createdAt",
        "Forecast of the verdict",
    ):
        assert words in done.output, words


def test_a_list_may_be_given_in_several_options(tables):
    """Nothing that was said is forgotten: a list in one option and the same in several are one scenario."""
    flags = [*LABEL, "--bounds", "age=18:90", "--categories", "sex=f,m", "--yes"]
    (tables / "ward.csv").write_text("age,sex,town,floor,sick\n" + "30,f,Bern,2,yes\n95,x,Thun,1,no\n" * 1000)
    (tables / "city.csv").write_text("age,sex,town,floor,sick\n" + "30,f,Bern,2,yes\n95,x,Thun,1,no\n" * 2000)
    init(*flags, "--missing", "age,sex", "--skip", "town,floor", "--missing-texts", "NA,-", "--output", "one.yaml")
    twice = [("--missing", "age", "sex"), ("--skip", "town", "floor"), ("--missing-texts", "NA", "-")]
    several = [part for option, *values in twice for value in values for part in (option, value)]
    init(*flags, *several, "--output", "two.yaml")
    assert (tables / "two.yaml").read_text() == (tables / "one.yaml").read_text()
    assert [kind for kind in load("two.yaml").source.table.features if isinstance(kind, Missing)] == [
        Missing(column="age"),
        Missing(column="sex"),
    ]


def test_an_answer_is_about_the_column_that_is_asked_whatever_its_name(tables):
    for name in ("ward.csv", "city.csv"):
        (tables / name).write_text("a=b,a,c=d,sick\n" + "p,3,5,yes\nq,4,6,no\n" * 2000)
    answers = "\n".join(["1:1", "c", "p,q", "n", "a=1:9", "1:9", "n", "2:8", "none"]) + "\n"
    init(*FLAGS[:6], answers=answers, says="wants LOW:HIGH with two finite numbers, as 18:90, found 'a=1:9'")
    options = ["--categories", "a=b=p,q", "--bounds", "a=1:9", "--bounds", "c=d=2:8", "--output", "same.yaml"]
    init(*FLAGS[:6], *options, "--yes")
    assert load("same.yaml").source == load("ward.yaml").source
    assert [one.column for one in load("ward.yaml").source.table.features] == ["a=b", "a", "c=d"]


def test_a_text_or_a_column_may_hold_a_comma(tables):
    rows = ('"Bern, CH",1,yes\nThun,2,"no, never"\n') * 2000
    for name in ("ward.csv", "city.csv"):
        (tables / name).write_text('town,"id, old",sick\n' + rows)
    label = ["--label", "sick", "--positive", "yes", "--negative", '"no, never"']
    init(*label, "--categories", 'town="Bern, CH", Thun', "--skip", '"id, old"', "--yes")
    table = load("ward.yaml").source.table
    assert table.features == (Category(column="town", values=("Bern, CH", "Thun")),)
    assert table.label.negative == ("no, never",)
    init(*label, "--output", "asked.yaml", answers='1:1\nc\n"Bern, CH",Thun\ns\nnone\n')
    assert load("asked.yaml").source == load("ward.yaml").source
    for wrong in ('town="Bern, CH', 'town="Bern" CH,Thun'):
        says = "its own quotes are doubled"
        init(*label, "--categories", wrong, "--yes", "--output", "other.yaml", status=2, says=says)


@for_each(
    ("column", "kind"),
    [
        *(("member_id", "an id"), ("customerID", "an id"), ("Kunden-Nr", "an id"), ("createdAt", "a date")),
        *(("Datum", "a date"), ("last name", "free text"), ("Notes", "free text"), ("idle", None), ("age", None)),
        *(("id_age", None), ("", None), ("q17", None)),
    ],
)
def test_what_a_column_is_by_its_name(column, kind):
    assert looks_like(column) == kind


def test_a_number_becomes_a_label_above_a_threshold_or_is_predicted_itself(tables):
    rows = "rooms,price\n" + "3,300\n5,500\n" * 2000
    (tables / "s.csv").write_text(rows)
    (tables / "t.csv").write_text(rows)
    bounds = ["--label", "price", "--bounds", "rooms=1:7"]
    for words in (["--above", "400", "--yes"], ["--response", "0:1000", "--yes"]):
        done = init(*bounds, *words, "--output", f"{words[0][2:]}.yaml", of=("s.csv", "t.csv"))
    above, response = load("above.yaml"), load("response.yaml")
    assert (above.protocol, above.source.table.label.above) == ("portfolio", 400)
    found = response.protocol, response.agents.loss, response.agents.bound
    assert found == ("portfolio-regression", "squared", 1 / 16)
    assert "errs on" not in done.output  # a forecast about mistakes
    assert "What fits: protocol portfolio-regression" in done.output
    assert response.source.table.features[-1] == Number(column="price", low=0, high=1000)
    for number, typed in enumerate((">400", "0:1000")):
        costs = "1:1\n" if number == 0 else ""  # and an empty line: no field that is empty is a feature
        init("--output", f"{number}.yaml", answers=f"price\n{typed}\n{costs}n\n1:7\n\n", of=("s.csv", "t.csv"))
        written = load(f"{number}.yaml").source.table
        assert written.features == load(f"{('above', 'response')[number]}.yaml").source.table.features
    for words, message in (
        (["--above", "400", "--response", "0:9"], "exclude each other"),
        (["--above", "many"], "--above must be a finite number"),
        (["--response", "0-9"], "--response wants LOW:HIGH with two finite numbers, as 18:90, found '0-9'"),
        (["--response", "0:9", "--costs", "2:1"], "has none"),
    ):
        init(*bounds, *words, "--yes", status=2, says=message, of=("s.csv", "t.csv"))


def test_columns_that_no_option_names_are_refused_with_yes_and_asked_about_without(tables):
    init(*FLAGS[:-2], "--yes", status=2, says="Column 'town' is named by no option")
    init(*FLAGS[:-2], "--costs", "1:1", answers="what\ny\n", says="left out: town")


def test_a_table_of_another_country_becomes_a_scenario_that_reads_it(tables):
    """Semicolons, decimal commas, thousands, accents in another encoding, codes for what is not known."""
    text = "Größe;Ort;krank\n1.650,5;Zürich;ja\nk.A.;Genève;nein\n"
    (tables / "hier.csv").write_bytes(text.encode("windows-1252") + b"-;Bern;ja\n" * 2000)
    (tables / "dort.csv").write_bytes(text.encode("windows-1252") + b"12,5;Bern;nein\n" * 3000)
    flags = ["--label", "krank", "--positive", "ja", "--negative", "nein", "--categories", "Ort=Zürich,Genève,Bern"]
    flags += ["--bounds", "Größe=0:2000", "--yes"]
    written_so = ["--separator", ";", "--decimal", ",", "--encoding", "windows-1252", "--missing-texts", "k.A.,-"]
    done = init(*flags, *written_so, of=("hier.csv", "dort.csv"))
    source = load("hier.yaml").source.table
    records = load_table(tables, source)
    assert records.features[:3].tolist() == [[np.float32(1650.5 / 2000), 1, 0, 0], [0.5, 0, 1, 0], [0.5, 0, 0, 1]]
    assert records.labels[:3].tolist() == [1, -1, 1]
    assert examine(tables, source).sound
    init(*flags, *written_so, says="are the two swapped?", of=("dort.csv", "hier.csv"))
    assert "swapped" not in done.output
    for option, value in (("--encoding", "klingon"), ("--decimal", ";"), ("--thousands", ",")):
        wrong = (*flags, *written_so, option, value)
        init(*wrong, status=2, says="--decimal, --thousands, --encoding", of=("hier.csv", "dort.csv"))


def test_a_wrong_option_says_what_to_do_and_writes_nothing(tables):
    for option, value, message in (
        ("--bounds", "agee=1:2", "must have column 'agee' (did you mean 'age'?); there are age, sex"),
        ("--bounds", "town=low:high", "LOW:HIGH with two finite numbers, as age=18:90, found 'town=low:high'"),
        ("--bounds", "town=0:inf", "two finite numbers"),
        ("--bounds", "town=5:5", "low = 5.0 must be below high = 5.0"),
        ("--bounds", "age=1:2", "column 'age' is given twice"),
        ("--categories", "sick=yes,no", "column 'sick' is the label"),
        ("--costs", "0:1", "--costs 0:1: Costs: miss: "),
        ("--costs", "1:inf", "--costs 1:inf: Costs: false_alarm: "),
        ("--costs", "24", "must be two numbers with a colon between them, such as 10:1, found '24'"),
        ("--missing", "age,town", "--missing: column 'town' is no feature"),
        ("--categories", "town", "--categories wants COLUMN=VALUE,VALUE"),
        ("--categories", "town=a,a", "listed twice"),
        ("--negative", "yes", "cannot be both positive and negative"),
        ("--label", "ill", "--label: both tables must have column 'ill'"),
        ("--label", "", "--yes, and no option says it: Which column"),
        ("--epsilon", "0", "must be positive"),
        ("--separator", ";;", "must be one character"),
        ("--output", "ward.txt", "must end in .yaml"),
        ("--name", "My Ward", "name"),
    ):
        init(*FLAGS, option, value, "--yes", status=2, says=message)
        assert not list(tables.glob("*.yaml"))
    (tables / "ward.yaml").write_text("mine")  # a file that is there is left as it is
    (tables / "ward-2.yaml").write_text("mine")
    said = "ward.yaml is there already, and is left as it is: `referee plan ward.yaml` goes on with it"
    done = init(status=2, says=said)  # before anything is asked
    assert (tables / "ward.yaml").read_text() == "mine"
    assert "`--output ward-3.yaml`" in " ".join(done.output.split())
    assert "Which column" not in done.output
    init(*FLAGS, "--yes", "--output", "ward-3.yaml")
    for wrong, said in (  # no answer would help
        (["--missing", "agee"], "--missing: both tables must have column 'agee' (did you mean 'age'?)"),
        (["--missing", "town", "--skip", "town"], "--missing: column 'town' is no feature"),
        (["--classes", "a,b"], "--classes wants 3 to 10 different texts"),
        (["--above", "many"], "--above must be a finite number"),
        (["--above", "4", "--response", "1:2"], "exclude each other"),
        (["--response", "0:9", "--costs", "2:1"], "has none"),
        (["--response", "9:9"], "--response 9:9: "),
        (["--positive", "a", "--negative", "a"], "cannot be both positive and negative"),
    ):
        done = init(*wrong, "--output", "ward-4.yaml", status=2, says=said, answers="sick\nyes\nno\n1:1\ns\ns\ns\n")
        assert "Which column" not in done.output


def test_tables_that_cannot_be_read(tables):
    (tables / "broken.csv").write_text(HEADER + ROWS + "1,2\n")
    (tables / "empty.csv").write_text(HEADER)
    (tables / "semicolons.csv").write_text((HEADER + ROWS).replace(",", ";"))
    for name, message in (
        ("broken.csv", "broken.csv: line 4 has 2 fields where there are 4 columns"),
        ("empty.csv", "empty.csv: there is no row below its header"),
        ("semicolons.csv", "have no column in common: is --separator ',' right?"),
        ("nothing.csv", "nothing.csv: there is no such file"),
    ):
        init(*FLAGS, "--yes", status=1, says=message, of=("ward.csv", name))
    init(*FLAGS, "--yes", status=2, says="no person may be on both sides", of=("ward.csv", "./ward.csv"))


def test_other_separators_folders_and_parquet_of_which_the_used_columns_must_hold_what_a_table_takes(tables):
    (tables / "far").mkdir()
    (tables / "semicolons.csv").write_text((HEADER + ROWS * 1000).replace(",", ";"))
    city = polars.DataFrame({"age": [30] * 9, "sex": "f", "town": "x", "sick": "no"})
    city.write_parquet(tables / "far/city.parquet")
    init(*FLAGS, "--yes", "--separator", ";", of=("semicolons.csv", "far/city.parquet"))
    written = load("semicolons.yaml")
    source, target = written.source.table, written.target.table
    assert (written.data, source.files, target.files) == (".", ("semicolons.csv",), ("far/city.parquet",))
    assert (source.layout.separator, written.agents.count) == (";", 9)
    ward = polars.DataFrame({"age": [[30]] * 40, "sex": ["f", "m"] * 20, "town": "x", "sick": ["yes", "no"] * 20})
    ward.write_parquet(tables / "WARD.PARQUET")
    words = "WARD.PARQUET: column 'age' holds lists: give each entry a column of its own"
    init(*FLAGS, "--yes", status=1, says=words, of=("WARD.PARQUET", "city.csv"))
    assert not (tables / "ward.yaml").exists()
    init(*FLAGS[:6], "--categories", "sex=f,m", "--skip", "age,town", "--yes", of=("WARD.PARQUET", "city.csv"))


NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def start_of(n: int, agents: int, label: Label, *features: Number | Category) -> Start:
    budgets = {"epsilon": 1.0, "delta": usual_delta(n), "agent_epsilon": 1.0}
    return Start("s", ".", "a.csv", "b.csv", n, agents, label=label, features=features, **budgets)


@given(st.lists(NAME, min_size=5, max_size=5, unique=True), st.floats(-1e300, 1e300), st.integers(1, 10**6))
@example(["\xa0", "a", "b", "c", "d"], 0.0, 1)  # a title that begins with a blank which is no space
def test_any_name_bound_and_size_is_read_back_as_it_was_meant(names, low, n):
    assume(look_alikes([["yes", names[1]], ["no", "1.0"]], ["", "?"]) is None)
    assume(look_alikes([[names[4]], ["null\n# x: y"]], ["", "?"]) is None)
    label = Label(column=names[0], positive=("yes", names[1]), negative=("no", "1.0"))
    number = Number(column=names[2], low=low, high=abs(low) * 2 + 1)
    start = start_of(n, 3 * n, label, number, Category(column=names[3], values=(names[4], "null\n# x: y")))
    written = parse(strictyaml.load(scenario_text(scenario_tree(start), advised(start))))
    assert (written.source.table.label, written.source.table.features) == (start.label, start.features)
    assert (written.curator.n, written.curator.delta) == (n, start.delta)


def test_the_sizes_choose_delta_and_the_protocol_as_plan_advises():
    for n, delta in ((1, 0.1), (9, 0.01), (10, 0.01), (20_000, 1e-6), (10**6, 1e-7)):
        assert usual_delta(n) == delta <= 1 / (10 * n)
    label, number = Label(column="y", positive=("1",), negative=("0",)), Number(column="x", low=0, high=1)
    sizes = (20_000, 50_000, "portfolio"), (200, 60, "portfolio"), (200, 5, "learn-and-test")
    for n, agents, protocol in sizes:
        start = start_of(n, agents, label, number)
        tree, found = scenario_tree(start), advised(start)
        assert tree["protocol"] == protocol == found.protocol
        assert tree["alpha"] == accuracy(found)


TABLE = {
    "files": ["ward.csv"],
    "label": {"column": "sick", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "age", "low": 18, "high": 90},
        {"kind": "category", "column": "smoker", "values": ["0", "1"]},
        {"kind": "category", "column": "sex", "values": ["f", "m"]},
    ],
}
CHECKS_HEADER = "age,smoker,sex,sick\n"
SOUND = CHECKS_HEADER + "30,0,f,yes\n40,1,m,no\n"


def found(folder, text, people=None, **changes):
    (folder / "ward.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return examine(folder, TableSource.parse(TABLE | changes), people)


def kinds(examined):
    return {(one.kind, one.column, one.count, one.lines) for one in examined.findings}


def test_a_sound_table_and_what_is_wrong_with_a_whole_one(tmp_path):
    examined = found(tmp_path, SOUND, people=2)
    assert (examined.sound, examined.findings) == (True, [])
    assert (examined.rows, examined.kept, examined.positive, examined.negative) == (2, 2, 1, 1)
    assert found(tmp_path, b"\xef\xbb\xbf" + SOUND.replace(",", " , ").encode()).sound
    examined = found(tmp_path, "age,smoker,sex,sick,ward\n30,0,f,yes,7\n40,1,m,no,7\n")
    assert examined.sound
    assert [one.what for one in examined.findings] == ["columns that the scenario does not use: ward"]
    for label in ("yes", "no"):
        examined = found(tmp_path, CHECKS_HEADER + f"30,0,f,{label}\n40,1,m,{label}\n")
        assert ([(one.kind, one.count) for one in examined.findings], examined.sound) == ([("one-class", 2)], False)
    assert [one.kind for one in found(tmp_path, SOUND, people=3).findings] == ["too-few"]
    examined = found(tmp_path, SOUND + "30,1.0,f,yes\n", where={"smoker": ["1"]})
    assert (kinds(examined), examined.kept) == ({("left-out", "smoker", 1, (2,))}, 2)
    for header, rows, kind in (
        ("age,smoker,sex,sick,sex", "30,0,f,yes,f\n40,1,m,no,f\n", "column-twice"),
        ("age,smoker,Sex,sick", "30,0,f,yes\n40,1,m,no\n", "no-column"),
    ):
        (wrong,) = (one for one in found(tmp_path, f"{header}\n{rows}").findings if one.severity == "stops")
        assert (wrong.kind, wrong.column) == (kind, "sex")
    assert "'Sex'" in wrong.remedy
    for content, what in (
        (SOUND.encode("utf-16"), "line 1 is UTF-16 text"),
        (SOUND.encode() + b"30,0,\xe4,no\n", "line 4 is not UTF-8 text"),
        (SOUND + '30,0,"f,no\n', "is not well-formed CSV"),
        (b"", "the file has no such column"),
    ):
        examined = found(tmp_path, content)
        assert (examined.sound, any(what in one.what for one in examined.findings)) == (False, True), what
    people = polars.DataFrame({"age": [30, 40], "smoker": [0.0, 1.0], "sex": ["f", "m"], "sick": ["yes", "no"]})
    people.write_parquet(tmp_path / "ward.parquet")  # of floats, read as one of integers
    examined = examine(tmp_path, TableSource.parse(TABLE | {"files": ["ward.parquet"]}))
    assert (examined.sound, kinds(examined)) == (True, set())


def test_each_flaw_is_counted_with_its_line(tmp_path):
    for row, kind, column, sound in (
        ("91,0,f,yes", "clipped", "age", True),
        ("-1e9,0,f,yes", "clipped", "age", True),
        (",0,f,yes", "missing", "age", True),
        ("30,0,?,yes", "missing", "sex", True),
        ("30,2,f,yes", "unlisted", "smoker", True),
        ("30,2.0,f,yes", "unlisted", "smoker", True),
        ("30,0,F,yes", "look-alike", "sex", False),
        ("old,0,f,yes", "no-number", "age", False),
        ("nan,0,f,yes", "no-number", "age", False),
        ("30,0,f,perhaps", "label", "sick", False),
        ("30,0,f,", "label", "sick", False),
        ("30,0,yes", "broken-row", None, False),
    ):
        examined = found(tmp_path, SOUND + row + "\n")
        assert kinds(examined) == {(kind, column, 1, (4,) if column else ())}, row
        assert (examined.sound, all(one.remedy for one in examined.findings)) == (sound, True), row
        stops = any(one.severity == "stops" for one in examined.findings)
        with pytest.raises(BadData) if stops else nullcontext():
            assert len(load_table(tmp_path, TableSource.parse(TABLE))) == examined.kept


@for_each(
    ("fields", "shown", "layout"),
    [
        (
            ["4,879", "1,234,567"],
            "'4,879' has a thousands separator: add `thousands: ','` to layout",
            {"thousands": ","},
        ),
        (["4,87", "1,2"], "'4,87' has a decimal comma: add `decimal: ','` to layout", {"decimal": ","}),
        (["1.234,5", "7"], "'1.234,5' has a decimal comma: add `decimal: ','` to layout", {"decimal": ","}),
        (["4 879"], "'4 879' has spaces between thousands: add `thousands: ' '` to layout", {"thousands": " "}),
        (["4'879"], 'has a thousands separator: add `thousands: "\'"` to layout', {"thousands": "'"}),
        (["-", "NA"], "add `missing: ['', '?', '-', 'NA']` to layout", {"missing": ["", "?", "-", "NA"]}),
    ],
)
def test_what_check_says_of_a_number_is_a_remedy_that_works(tmp_path, fields, shown, layout):
    rows = "".join(f'"{field}",0,f,yes\n' for field in fields)
    wrong = next(one for one in found(tmp_path, SOUND + rows).findings if one.kind != "clipped")
    assert (wrong.kind, wrong.severity, shown in wrong.remedy) == ("no-number", "stops", True), wrong
    assert repr(fields[0]) in wrong.what
    examined = found(tmp_path, SOUND + rows, layout=layout)
    assert examined.sound
    assert {one.kind for one in examined.findings} <= {"clipped", "missing"}


def test_what_check_says_of_other_spellings(tmp_path):
    for row, remedy in (
        ("30,0,f,Yes", "'Yes' is 'yes' in another spelling: add it to label.positive"),
        ("30,0,f, NO ", "'NO' is 'no' in another spelling: add it to label.negative"),
        ("30,0,F,no", "values: [[f, F]]"),
        ("30 %,0,f,no", "'30 %' has a unit beside its number"),
    ):
        (wrong,) = found(tmp_path, SOUND + row + "\n").findings
        assert remedy in wrong.remedy, wrong
    smoker = {"kind": "category", "column": "smoker", "values": ["F", "0", "1"]}
    *_, wrong = found(tmp_path, SOUND + "30,0,F,no\n", features=[smoker, TABLE["features"][2]]).findings
    assert "values: [[f, F]]" in wrong.remedy  # not what another column lists
    (wrong,) = found(tmp_path, SOUND + "30,0,f," + "x" * 500 + "\n").findings
    assert len(wrong.what) < 100


def test_a_column_that_does_not_vary_is_named_and_stops_no_run(tmp_path):
    examined = found(tmp_path, CHECKS_HEADER + "30,0,f,yes\n40,0,m,no\n")
    assert (kinds(examined), examined.sound) == ({("constant", "smoker", 2, ())}, True)


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


@pytest.fixture
def scenario(tmp_path):
    learner = {"name": "sgd", "loss": "logistic", "steps": 10000, "noise": "plan", "diameter": 2.0}
    curator = {"n": 2, "epsilon": 1.0, "delta": 1e-6, "rounds": 1, "kappa": None, "eta": 0.1, "learner": learner}
    tree = {
        "name": "ward",
        "title": "Who is sick",
        "protocol": "learn-and-test",
        "alpha": 0.1,
        "data": str(tmp_path),
        "source": {"table": TABLE},
        "target": {"table": TABLE | {"files": ["town.csv"]}},
        "curator": curator,
        "agents": {"count": 2, "mechanism": {"name": "warner", "epsilon": 1.0}},
    }
    (tmp_path / "ward.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / "ward.csv").write_text(SOUND + "95,1,F,yes\n")
    (tmp_path / "town.csv").write_text(SOUND)
    return tmp_path / "ward.yaml"


def test_the_command_says_that_its_output_is_private_and_ends_by_what_it_found(scenario):
    before = {path: path.read_bytes() for path in scenario.parent.rglob("*")}
    curators, agents, document, none = (
        CliRunner().invoke(app, ["check", str(scenario), *more])
        for more in ((), ("--side", "T"), ("--json",), ("--side", "S"))
    )
    assert (curators.exit_code, agents.exit_code, none.exit_code) == (1, 0, 1), curators.output
    assert (curators.stdout[:9], agents.stdout[:9]) == ("PRIVATE: ", "PRIVATE: ")
    wrong = "ward.csv, column 'sex', 1 row (line 4): 'F' differs from a listed value in case"
    assert f"probably not as it was meant:\n  {wrong}" in curators.stdout
    tree = json.loads(document.stdout)
    assert (tree["sound"], tree["rows"], tree["private"][:8]) == (False, 3, "PRIVATE:")
    assert {one["kind"] for one in tree["findings"]} == {"look-alike", "clipped"}
    assert {path: path.read_bytes() for path in scenario.parent.rglob("*")} == before
    assert tree["compared"] == [
        "S has 3 rows, T 2: S are the few who trust the curator; are they swapped?",
        "rows of S that T has, too: 2; the ledger takes them for the same people, who spend both sides' epsilon and "
        "are charged for both",
    ]
    simulated = CliRunner().invoke(app, ["check", str(scenario), "--json", "--set", "people=simulated"])
    assert json.loads(simulated.stdout)["compared"] == tree["compared"][:1]  # nobody charges them
    (scenario.parent / "ward.csv").write_text(CHECKS_HEADER + "30,0,f,yes\n40,0,m,no\n")
    (scenario.parent / "town.csv").write_text(SOUND + ",7,f,yes\n")
    both = CliRunner().invoke(app, ["check", str(scenario)])
    assert both.stdout.partition("S beside T:\n")[2].splitlines()[1:4] == [
        "  column 'smoker' is the same in all rows of S alone: leave it out if that is publicly known",
        "  column 'smoker' has values that are not listed in T alone (1): no model of S knows them",
        "  column 'age' has missing values in T alone (1): no model of S knows them",
    ]
    done = CliRunner().invoke(app, ["check", "ball"])
    assert (done.exit_code, "there is no table to check" in done.output) == (2, True)
