"""Reports of run folders: self-contained, reproducible, equal to result.json; clear errors for other folders."""

from __future__ import annotations

import io
import json
import math
import re
import shutil
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars
import pytest
import yaml
from typer.testing import CliRunner, Result

import tandem
from common.core.errors import AuditFailed, BadData, BadInput, BadMessage, NotFound
from common.scenario.loading import load
from local_agent.cli import app as agent_command
from local_agent.cli import read_record
from referee.audit.audit import audit
from referee.cli import app
from referee.runs.percents import estimate_or_vague, share
from referee.view.charts import MAX_BARS, MAX_POINTS, by_round, compared, thinned, weights
from referee.view.pages import report, view_of
from referee.view.wording import ChartEntry, Interval, Round, against, promise
from tests.support import TINY, tiny

EVIL = '<script>alert("x")</script>\x1b[31m'


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reports") / "run"
    sets = [part for override in (*TINY, "baselines=[]") for part in ("--set", override)]
    done = CliRunner().invoke(app, ["run", "ball", "--seed", "3", "--output", str(folder), *sets])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy", ignore=shutil.ignore_patterns("state")))


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def altered(folder: Path, **changes) -> None:
    (folder / "result.json").write_text(json.dumps({**result_of(folder), **changes}))


def report_of(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_a_finished_folder_is_rendered_alike_again_and_several_runs_are_compared(finished, tmp_path):
    first = (finished / "report.html").read_bytes()
    assert report_of(finished).exit_code == 0
    assert (finished / "report.html").read_bytes() == first
    page = tmp_path / "two.html"
    assert report_of(finished, finished, "--output", page).exit_code == 0
    text = page.read_text()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert "run-2" in ids
    assert 'href="#run-2"' in text
    assert text.count("How to verify it") == 2


def test_a_page_shows_the_numbers_of_the_result_asks_for_nothing_and_runs_no_script(finished, copied):
    page, result = report([view_of(finished)]), result_of(finished)
    assert result["rounds"]
    for numbers in result["rounds"]:
        assert f'<td class="number">{numbers["asked"]:,.0f}</td>' in page
        assert estimate_or_vague(numbers) in page
    for words in (
        f"{result['agents']['asked']:,} of {result['agents']['enrolled']:,}",
        share(result["truth"]["loss_on_target"], places=2),
        *(result["verdict"]["text"], "default-src 'none'"),
    ):
        assert words in page
    altered(copied, reason=EVIL, run=EVIL)
    hostile = report([view_of(copied)])
    assert "&lt;script&gt;" in hostile
    for each in (page, hostile):
        assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)", each)
        assert not any(words in each for words in ("<script", "url(", "@import", "\x1b"))


def test_true_losses_are_in_the_unit_that_each_has_and_the_terminal_prints_the_same(tmp_path):
    """Where mistakes have costs a share of mistakes is one all the same; a class that a label cannot tell is none."""
    folder = tmp_path / "run"
    sets = ["agents.costs={miss: 4, false_alarm: 1}", "curator.n=2000", "agents.count=4000", "baselines=[]"]
    options = [part for one in sets for part in ("--set", one)]
    done = CliRunner().invoke(app, ["run", "portfolio", "--seed", "3", "--output", str(folder), *options])
    assert done.exit_code == 0, done.output
    truth, page = result_of(folder)["truth"], (folder / "report.html").read_text()
    told = " ".join(re.sub("[^\x20-\x7e]+", " ", done.output).split())
    cost = f"{400 * truth['tested_loss']:.4g}"
    assert f"loss on T, true {cost} a hundred people" in told
    assert f'tested</th><td class="number">{cost}</td>' in page
    for name, key in (("run&#39;s answer", "loss_on_target"), ("people labelled -1", "loss_on_negative")):
        shown = share(truth[key], places=2)
        assert f'{name}</th><td class="number">{shown}</td>' in page
        assert shown in told
    altered(folder, truth={**truth, "loss_on_negative": None})
    assert "people labelled" not in report([view_of(folder)])


def test_rounds_that_the_transcript_does_not_lead_to_are_found(copied):
    rounds = result_of(copied)["rounds"]
    assert [dict(numbers) for numbers in audit(copied).rounds] == rounds
    better = {**rounds[0], "value": rounds[0]["value"] / 2}
    for wrong in ([better, *rounds[1:]], [*rounds, rounds[-1]], rounds[:1]):
        altered(copied, rounds=wrong)
        with pytest.raises(AuditFailed, match="rounds differs from the signed"):
            audit(copied)


def rewrite(name: str, change: Callable[[str], str]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(change((folder / name).read_text()))


def test_what_is_no_finished_run_is_refused_in_a_line(finished, tmp_path):
    for number, (break_it, error, words) in enumerate((
        (lambda run: (run / "result.json").unlink(), NotFound, "has not ended: result.json is not written yet"),
        (rewrite("result.json", lambda text: text[:99]), BadData, "result.json is not JSON"),
        (rewrite("result.json", lambda text: "[]"), BadData, "must hold a mapping, found a list"),
        (rewrite("scenario.yaml", lambda text: text + "quantum: true\n"), BadData, "this version .*quantum.*newer"),
        (lambda run: altered(run, rounds=3), BadData, "rounds must be a list"),
        (lambda run: altered(run, rounds=[{"round": 1.0}]), BadData, "cannot be read"),
        (lambda run: [path.unlink() for path in run.glob("*.*")], NotFound, "is no.* run folder: scenario.yaml cannot"),
        (shutil.rmtree, NotFound, "there is no run folder"),
    )):  # fmt: skip
        folder = Path(shutil.copytree(finished, tmp_path / f"{number}", ignore=shutil.ignore_patterns("state")))
        break_it(folder)
        with pytest.raises(error, match=words) as caught:
            view_of(folder)
        assert "\n" not in caught.value.detail
        done = report_of(folder)
        assert (done.exit_code, len(done.output.splitlines())) == (1, 1)


SVG = "{http://www.w3.org/2000/svg}"


def rounds(count: int) -> list[Round]:
    return [Round(n, Interval(0.2, 0.1, 0.3), 10, "", chosen=n == count) for n in range(1, count + 1)]


def baselines(*values: float) -> list[ChartEntry]:
    return [ChartEntry(f"way {k}", value, "baseline") for k, value in enumerate(values)]


def texts_of(drawing: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


def test_a_drawing_is_xml_with_a_title_a_description_and_its_axes_named():
    for count in (0, 1, 3, MAX_BARS + 1, 1000):
        drawing = by_round(rounds(count), 0.16, baselines(0.1), "loss on T")
        drawn, texts = ElementTree.fromstring(drawing), texts_of(drawing)
        assert (drawn.attrib["role"], drawn.attrib["aria-labelledby"]) == ("img", "loss-title loss-desc")
        assert {child.attrib.get("id") for child in drawn} >= {"loss-title", "loss-desc"}
        assert {"round", "loss on T", "level 16%"} <= set(texts)
        assert len(texts) < 60  # ticks do not grow with the rounds


def test_labels_stand_apart_right_of_the_data_within_the_drawing():
    drawn = ElementTree.fromstring(by_round(rounds(3), 0.1001, baselines(0.1, 0.1, 0.1002, 0.0, 0.001, 0.6), "loss"))
    labels = [t for t in drawn.iter(f"{SVG}text") if "way" in (t.text or "") or "level" in (t.text or "")]
    places = sorted(float(label.attrib["y"]) for label in labels)
    dots = [float(dot.attrib["cx"]) for dot in drawn.iter(f"{SVG}circle")]
    assert len(places) == 7
    assert min(b - a for a, b in pairwise(places)) >= 15.9
    assert max(dots) < 720 - 176 < min(float(label.attrib["x"]) for label in labels)
    assert 0 < places[0] < places[-1] < float(drawn.attrib["viewBox"].split()[3])


def test_an_interval_is_drawn_where_its_numbers_are():
    drawn = by_round([Round(1, Interval(0.25, 0.0, 0.5), 1, "")], None, [], "loss")
    high, low = re.search(r'class="whisker" d="M[\d.]+ ([\d.]+)V([\d.]+)M', drawn).groups()
    middle = re.search(r'class="dot estimate" cx="[\d.]+" cy="([\d.]+)"', drawn).group(1)
    assert float(middle) == pytest.approx((float(low) + float(high)) / 2, abs=0.1)
    assert (float(high), float(low)) == (36.0, 276.0)  # the whole of the axis from 0 to 0.5


def test_many_rounds_share_points_that_hold_their_intervals():
    for count in (MAX_POINTS, MAX_POINTS + 1, 1000, 10_007):
        many = [Round(n, Interval(0.5, 0.5 - 1 / n, 0.5 + (n % 7) / 20), 10, "") for n in range(1, count + 1)]
        points, before = thinned(many), 0
        assert len(points) <= MAX_POINTS
        assert (points[0], points[-1]) == ((1, many[0].estimate), (count, many[-1].estimate))
        for number, found in points:
            own, before = [r.estimate for r in many[before:number]], number
            assert (found.low, found.high) == (min(each.low for each in own), max(each.high for each in own))
        assert len(by_round(many, 0.16, [], "loss")) < 20_000


def test_a_comparison_has_a_line_for_each_and_hostile_names_are_text():
    entries = [ChartEntry(f"run {k}", k / 10, "estimate", Interval(k / 10, 0, k / 5)) for k in range(4)]
    texts = texts_of(compared(entries, None, "loss"))
    assert [t for t in texts if t.startswith("run")] == ["run 0", "run 1", "run 2", "run 3"]
    assert "0% to 60%" in texts
    evil = "</text><script>alert(1)</script>\x1b\x00\u202e&\"'"
    entries = [ChartEntry(evil, 0.1, "baseline"), ChartEntry(evil, 0.2, "estimate", Interval(0.2, 0.1, 0.3))]
    for chart in (by_round(rounds(2), 0.1, entries, evil), compared(entries, 0.1, evil)):
        assert texts_of(chart)
        assert not any(text in chart for text in ("<script", "\x1b", "\x00", "\u202e"))


def test_a_drawing_for_a_phone_has_the_same_words_within_its_width_and_none_on_another():
    entries = [ChartEntry(f"way {k} of many ways", k / 10, "estimate", Interval(k / 10, 0, k / 5)) for k in range(4)]
    bars = [("age", 2.0), ("town = Bern", -1.0), ("visits", 0.0)]
    measure = "share of the population that the answer labels wrongly"
    for draw in (
        lambda narrow: by_round(rounds(30), 0.16, baselines(0.1, 0.6), measure, narrow=narrow),
        lambda narrow: compared(entries, 0.1, measure, narrow=narrow),
        lambda narrow: weights(bars, measure, narrow=narrow),
    ):
        drawn = ElementTree.fromstring(draw(True))
        assert drawn.attrib["viewBox"].split()[2] == "360"
        assert {text for text in texts_of(draw(False)) if "way" in text or text == measure} <= set(texts_of(draw(True)))
        height, places = float(drawn.attrib["viewBox"].split()[3]), []
        for text in drawn.iter(f"{SVG}text"):
            size = 6.6 * len("".join(text.itertext()))
            low = float(text.attrib["x"]) - {"start": 0.0, "middle": size / 2, "end": size}[text.attrib["text-anchor"]]
            assert -4.0 < low < low + size < 372.0, "".join(text.itertext())
            assert 0 < float(text.attrib["y"]) <= height
            places.append((low, low + size, float(text.attrib["y"])))
        for first, second in combinations(places, 2):
            assert abs(first[2] - second[2]) > 11 or first[1] <= second[0] + 4 or second[1] <= first[0] + 4


def test_a_weights_bar_begins_at_the_common_line_and_is_as_long_as_its_weight():
    drawn = weights([("age", 2.0), ("town = Bern", -1.0)], "adds")
    zero = float(re.search(r'class="grid" d="M([\d.]+)', drawn)[1])
    first, second = re.findall(r'<rect class="dot (\w+)" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    assert (first[0], float(first[1])) == ("estimate", zero)
    assert float(second[1]) + float(second[2]) == pytest.approx(zero, abs=0.2)
    assert float(first[2]) == pytest.approx(2 * float(second[2]), abs=0.2)
    assert {"+2", "-1", "age", "town = Bern"} <= set(texts_of(drawn))


def test_shares_are_rounded_outward_and_decimals_stay_what_they_are():
    for value in (0.0, 0.16, 0.07, 0.29, 0.1601, 1 / 3, 1.0):
        low, high = (float(share(value, up=up).rstrip("%")) / 100 for up in (False, True))
        assert low - 1e-12 <= value <= high + 1e-12
        assert high - low <= (1e-12 if value in (0.16, 0.07, 0.29) else 0.001 + 1e-12)


def test_an_interval_against_its_level():
    for low, high, level, words in (
        (0.05, 0.15, 0.16, "below 16%"),
        (0.2, 0.4, 0.16, "above 16%"),
        (0.1, 0.2, 0.16, "16% is inside the interval"),
        (0.05, 0.16, 0.16, "16% is inside the interval"),  # at the level is not below it
        (0.05, 0.15, None, ""),
    ):
        assert against(Interval(0.1, low, high), level) == words


def test_a_promise_in_plain_words_never_promises_more_than_its_formula():
    for epsilon in (0.1, 0.5, 1.0, 8.0, 800.0):
        given = {"epsilon": epsilon, "delta": 1e-4, "protects": "records", "neighbours": "one row", "covers": "run"}
        said = promise("each", given)
        factor = float(said.plain.partition("more than ")[2].partition(" times")[0].replace(",", ""))
        assert factor >= math.exp(min(epsilon, 690.0)) * (0.94 if epsilon > 13 else 1.0)
        assert f"({epsilon:g}, 0.0001)-differential privacy" == said.formula
        assert promise("each", {**given, "epsilon": None, "delta": None}).formula == "no guarantee"


EXAMPLE = Path(__file__).parents[3] / "examples" / "own_data" / "scenario.yaml"
MODEL = {"kind": "linear", "weights": [20.0, 9.0, -2.0, -2.0, 2.0], "threshold": 7.0}
ESTIMATE = {"value": 0.09, "low": 0.07, "high": 0.1, "confidence": 0.95}
CALIBRATED = MODEL | {"threshold": 7.5}
ROWS = "visits,plan,months,name\n12,pro,3,Ann\n0,basic,60,Bob\n45,gold,,Eve\n"


def folder_of(place, scenario=None, **result):
    """Write what of a run folder a model is made of; the rest is the audit's."""
    place.mkdir(parents=True)
    tree = (scenario or load(str(EXAMPLE))).wire() | {"data": None}
    (place / "scenario.yaml").write_text(yaml.safe_dump(tree))
    document = {"scenario": tree["name"], "status": "done", "reason": "", "answer": MODEL, "estimate": ESTIMATE}
    (place / "result.json").write_text(json.dumps(document | result))
    return place


@pytest.fixture
def run(tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS)
    return folder_of(tmp_path / "run", calibrated=CALIBRATED)


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
    assert "9% (7% to 10%) (95%)" in shown
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
        "months: 1 of 3 rows without a value, counted as 30",
        "plan: 1 of 3 rows none of the listed values, counted as none",
    ]
    assert "logistic fit to the agents' answers" in printed.stderr
    document = json.loads(said("predict", run, rows, "--json", "--probabilities").stdout)
    assert document["predictions"] == ["yes", "no", "yes"]
    assert document["probabilities"] == labels["probability"].to_list()
    assert document["notes"] == {"clipped": {"visits": 1}, "missing": {"months": 1}, "unlisted": {"plan": 1}}
    cheap = ("--cost-of-miss", 1, "--cost-of-false-alarm", 1e5)
    assert said("predict", run, rows, *cheap).stdout == "renews\nno\nno\nyes\n"
    for name, read in (("out.csv", polars.read_csv), ("out.parquet", polars.read_parquet)):
        assert said("predict", run, rows, "--output", tmp_path / name).stdout == ""
        assert read(tmp_path / name)["renews"].to_list() == ["yes", "no", "yes"]


def test_a_mistake_about_rows_to_predict_for_costs_no_file_and_says_what_can_be_done(run, tmp_path):
    rows = tmp_path / "rows.csv"
    written = rows.read_text()
    assert "would be lost: name another one" in said("predict", run, rows, "--output", rows, status=1).stderr
    assert rows.read_text() == written
    rows.write_text(written.replace(",", ";"))
    assert "the model's tables: write these in it, too" in said("predict", run, rows, status=1).stderr
    free = ("--cost-of-miss", 0, "--cost-of-false-alarm", 1)
    assert said("predict", run, rows, *free, status=1).stderr.startswith("Input not acceptable: --cost-of-miss and")


def test_what_is_no_table_is_refused_with_what_files_are_read(run):
    for name in ("scenario.yaml", "result.json"):
        outcome = said("predict", run, run / name, status=1)
        assert f"{name}: a {Path(name).suffix} file holds no rows to predict for: give a text table" in outcome.stderr
        assert ".parquet, .npy or .npz" in outcome.stderr


def test_what_was_exported_predicts_the_same(run, tmp_path):
    file, rows = tmp_path / "model.json", tmp_path / "rows.csv"
    said("export", run, file)
    assert said("predict", file, rows).stdout == "renews\nyes\nno\nyes\n"
    assert tandem.load_model(file) == tandem.load_model(run)
    assert tandem.as_sklearn(file).predict(rows).tolist() == ["yes", "no", "yes"]
    assert tandem.describe(run)[0] == "predicts renews: no or yes"
    said("export", run, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size > 500


def test_the_face_warns_of_what_it_counts(run):
    row = {"visits": 12, "months": 3, "plan": "pro"}
    assert tandem.predict(run, [row]).tolist() == ["yes"]
    (shares,) = tandem.predict_proba(run, [row])
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] > 0.5
    assert tandem.predict(run, [row], costs={"miss": 1e-6, "false_alarm": 1.0}).tolist() == ["no"]
    words = "plan: 1 of 1 row none of the listed values"
    with pytest.warns(tandem.DataNote, match=words):
        tandem.predict(run, [row | {"plan": "gold"}])
    with pytest.raises(BadData, match=words):
        tandem.predict(run, [row | {"plan": "gold"}], strict=True)
    with pytest.raises(BadInput, match="give a run, its folder, or a model's file, found int"):
        tandem.predict(7, [row])
    with pytest.raises(BadMessage, match=r"costs must be a mapping such as .*, found '10:1'"):
        tandem.predict(run, [row], costs="10:1")


def test_what_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder_of(tmp_path / "plain")
    (run / "short.csv").write_text("visits,months\n1,2\n")
    (run / "odd.csv").write_text("visits,months,plan\n1,two,pro\n")
    for line, why in (
        ("model nowhere", "there is neither a run folder nor a model file nowhere"),
        ("predict run nowhere.csv", "there is no such file"),
        ("predict run run/short.csv", "short.csv: has no column 'plan'"),
        ("predict run run/odd.csv", "odd.csv: line 2, column 'months': must be a finite number"),
        ("predict run rows.csv --strict", "visits: 1 of 3 rows beyond 0 .. 30"),
        ("predict run rows.csv --output run/labels.txt", "written as .csv or .parquet"),
        ("predict run rows.csv --output deep/labels.csv", "there is no directory deep, in which labels.csv is to be"),
        ("predict run rows.csv --output deep/a.parquet", "there is no directory deep, in which a.parquet is to be"),
        ("predict run rows.csv --task 2", "learned one thing and no tasks, found task 2"),
        ("predict run rows.csv --cost-of-miss 3", "give both --cost-of-miss and --cost-of-false-alarm"),
        ("predict run rows.csv --cost-of-miss 3 --cost-of-false-alarm 0", "false_alarm: "),
        ("predict run rows.csv --cost-of-miss inf --cost-of-false-alarm 1", "miss: "),
        ("predict plain rows.csv --probabilities", "no agents calibrated the model's score"),
        ("predict plain rows.csv --cost-of-miss 3 --cost-of-false-alarm 1", "no agents calibrated the model's score"),
        ("export run model.pmml", "is written as .json, .onnx, .joblib"),
    ):
        assert why in said(*line.split(), status=1).stderr


def test_runs_without_a_model(tmp_path):
    problem, eight = load("select-then-estimate"), {"kind": "linear", "weights": [1.0] * 8, "threshold": 0.0}
    for number, (chosen, result, why) in enumerate((
        (None, {"answer": None, "reason": "no agents"}, "ended without an answer: no agents"),
        (None, {"answer": {"kind": "riddle"}}, "the run's answer cannot be used: no hypothesis has the kind 'riddle'"),
        (None, {"answer": {**MODEL, "weights": [1.0] * 6}}, "needs 6 features, the table has 5"),
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
    tasks = [{"answer": MODEL, "estimate": None}, {"answer": two, "estimate": ESTIMATE}]
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
    taken, _ = read_record(tmp_path / "me.json")
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
