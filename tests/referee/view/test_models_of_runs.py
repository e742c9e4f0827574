"""``referee model``, ``predict`` and ``export`` on a run folder: what they print, what they refuse, in one line."""

import io
import json
from pathlib import Path

import polars
import pytest
import yaml
from typer.testing import CliRunner

import tandem
from common.core.errors import BadData, BadInput
from common.scenario.loading import load
from local_agent.cli import app as agent_command
from local_agent.cli import read_record
from referee.cli import app
from tests.support import tiny

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_data" / "scenario.yaml"
ANSWER = {"kind": "linear", "weights": [20.0, 9.0, -2.0, -2.0, 2.0], "threshold": 7.0}
ESTIMATE = {"value": 0.09, "low": 0.07, "high": 0.1, "confidence": 0.95}
ROWS = "visits,plan,months,name\n12,pro,3,Ann\n0,basic,60,Bob\n45,gold,,Eve\n"


def folder_of(place, scenario=None, **result):
    """Write what of a run folder a model is made of; the rest is the audit's."""
    place.mkdir(parents=True)
    tree = (scenario or load(str(EXAMPLE))).wire() | {"data": None}
    (place / "scenario.yaml").write_text(yaml.safe_dump(tree))
    document = {"scenario": tree["name"], "status": "done", "reason": "", "answer": ANSWER, "estimate": ESTIMATE}
    (place / "result.json").write_text(json.dumps(document | result))
    return place


@pytest.fixture
def run(tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS)
    return folder_of(tmp_path / "run")


def said(*arguments, status=0, command=app):
    outcome = CliRunner().invoke(command, [str(word) for word in arguments])
    assert outcome.exit_code == status, outcome.output
    if status:
        assert outcome.stdout == ""
        assert len(outcome.stderr.strip().splitlines()) == 1
    return outcome


def test_a_model_is_shown_by_columns_and_units(run):
    shown = said("model", run).stdout
    assert "predicts renews: no or yes" in shown
    assert "months, a unit    +0.15  over 0 .. 60: +9" in shown
    assert "plan = pro" in shown
    assert "0.090, in 0.070 to 0.100 (95%)" in shown
    total = json.loads(said("model", run, "--json").stdout)["sum_over_columns"]
    assert total["intercept"] == -7.0
    assert total["terms"][1] == {
        "column": "months", "value": None, "effect": 9.0 / 60.0, "weight": 9.0, "low": 0.0, "high": 60.0,
    }  # fmt: skip


def test_predictions_in_every_form(run, tmp_path):
    rows = tmp_path / "rows.csv"
    printed = said("predict", run, rows, "--probabilities")
    labels = polars.read_csv(io.StringIO(printed.stdout))
    assert labels["renews"].to_list() == ["yes", "no", "yes"]
    assert (labels["probability"] > 0.5).to_list() == [True, False, True]
    assert printed.stderr.splitlines()[:3] == [
        "visits: 1 of 3 rows beyond 0 .. 30, clipped to these bounds",
        "months: 1 of 3 rows without a value, counted as 0",
        "plan: 1 of 3 rows none of the listed values, counted as none",
    ]
    assert "logistic model" in printed.stderr
    document = json.loads(said("predict", run, rows, "--json", "--probabilities").stdout)
    assert document["predictions"] == ["yes", "no", "yes"]
    assert document["probabilities"] == labels["probability"].to_list()
    assert document["notes"] == {"clipped": {"visits": 1}, "missing": {"months": 1}, "unlisted": {"plan": 1}}
    for name, read in (("out.csv", polars.read_csv), ("out.parquet", polars.read_parquet)):
        assert said("predict", run, rows, "--output", tmp_path / name).stdout == ""
        assert read(tmp_path / name)["renews"].to_list() == ["yes", "no", "yes"]


def test_what_was_exported_predicts_the_same(run, tmp_path):
    said("export", run, tmp_path / "model.json")
    assert said("predict", tmp_path / "model.json", tmp_path / "rows.csv").stdout == "renews\nyes\nno\nyes\n"
    assert tandem.load_model(tmp_path / "model.json") == tandem.load_model(run)
    assert tandem.as_sklearn(tmp_path / "model.json").predict(tmp_path / "rows.csv").tolist() == ["yes", "no", "yes"]
    assert tandem.describe(run)[0] == "predicts renews: no or yes"
    said("export", run, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size > 500


def test_the_face_warns_of_what_it_counts(run):
    row = {"visits": 12, "months": 3, "plan": "pro"}
    assert tandem.predict(run, [row]).tolist() == ["yes"]
    (shares,) = tandem.predict_proba(run, [row])
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] > 0.5
    with pytest.warns(tandem.DataNote, match="plan: 1 of 1 row none of the listed values"):
        tandem.predict(run, [row | {"plan": "gold"}])
    with pytest.raises(BadData, match="plan: 1 of 1 row none of the listed values"):
        tandem.predict(run, [row | {"plan": "gold"}], strict=True)
    with pytest.raises(BadInput, match="give a run, its folder, or a model's file, found int"):
        tandem.predict(7, [row])


def test_what_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (run / "short.csv").write_text("visits,months\n1,2\n")
    (run / "odd.csv").write_text("visits,months,plan\n1,two,pro\n")
    for line, why in (
        ("model nowhere", "there is neither a run folder nor a model file nowhere"),
        ("predict run nowhere.csv", "there is no such file"),
        ("predict run run/short.csv", "short.csv: has no column 'plan'"),
        ("predict run run/odd.csv", "odd.csv: line 2, column 'months': must be a finite number"),
        ("predict run rows.csv --strict", "visits: 1 of 3 rows beyond 0 .. 30"),
        ("predict run rows.csv --output run/labels.txt", "written as .csv or .parquet"),
        ("predict run rows.csv --task 2", "learned one thing and no tasks, found task 2"),
        ("export run model.pmml", "is written as .json, .onnx, .joblib"),
    ):
        assert why in said(*line.split(), status=1).stderr


def test_runs_without_a_model(tmp_path):
    problem, eight = load("select-then-estimate"), {"kind": "linear", "weights": [1.0] * 8, "threshold": 0.0}
    for number, (chosen, result, why) in enumerate((
        (None, {"answer": None, "reason": "no agents"}, "ended without an answer: no agents"),
        (None, {"answer": {"kind": "riddle"}}, "the run's answer cannot be used: no hypothesis has the kind 'riddle'"),
        (None, {"answer": {**ANSWER, "weights": [1.0] * 6}}, "needs 6 features, the table has 5"),
        (tiny(), {"answer": eight}, "are simulated: there are no columns"),
        (problem, {"answer": {"values": [1]}}, f"is no model: it solves the problem {problem.problem.name!r}"),
    )):  # fmt: skip
        place = folder_of(tmp_path / f"run{number}", chosen, **result)
        for command in (("model", place), ("predict", place, "x.csv"), ("export", place, "x.json")):
            assert why in said(*command, status=1).stderr
    for name, content in (("result.json", "{"), ("scenario.yaml", "a: [")):
        place = folder_of(tmp_path / name)
        (place / name).write_text(content)
        assert f"{name} is not" in said("model", place, status=1).stderr
        (place / name).unlink()
        assert "is not a run folder" in said("model", place, status=1).stderr


def test_one_of_several_tasks(tmp_path):
    two = {"kind": "relabelled", "column": 4, "hypothesis": {"kind": "linear", "weights": [1.0, 0.0], "threshold": 0.5}}
    tasks = [{"answer": ANSWER, "estimate": None}, {"answer": two, "estimate": ESTIMATE}]
    place = folder_of(tmp_path / "run", load(str(EXAMPLE), ["source.table.norm=null", "target.table.norm=null"]),
                      answer=two, tasks=tasks)  # fmt: skip
    row = [{"visits": 29, "months": 3, "plan": None}]
    with pytest.warns(tandem.DataNote):
        assert tandem.predict(tandem.load_model(place, task=1), row).tolist() == ["yes"]
    assert tandem.predict(tandem.load_model(place, task=2), [{"visits": 29, "months": 0}]).tolist() == ["pro"]
    assert "pro" in said("model", place).stdout


def test_a_record_is_printed_and_its_flaws_are_named(tmp_path):
    fields = tmp_path / "fields.json"
    fields.write_text(json.dumps({"visits": 12, "months": 3, "plan": "pro", "renews": "yes"}))
    record = json.loads(said("record", EXAMPLE, fields, command=agent_command).stdout)
    assert record["label"] == 1
    assert len(record["features"]) == 5
    said("record", EXAMPLE, fields, "--output", tmp_path / "me.json", command=agent_command)
    taken = read_record(tmp_path / "me.json")
    assert (taken.features[0].tolist(), int(taken.labels[0])) == (record["features"], 1)
    for content, why in (
        ("{", "cannot be read as JSON"),
        ("[]", "must hold the person's fields by column"),
        ('{"visits": 1}', "has no field 'months'"),
        ('{"visits": 1, "months": 2, "plan": null, "renews": "maybe"}', "the label must be one of yes, no"),
    ):
        fields.write_text(content)
        assert why in said("record", EXAMPLE, fields, status=1, command=agent_command).stderr
    assert "simulated" in said("record", "ball", fields, status=2, command=agent_command).stderr
