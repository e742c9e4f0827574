"""Reports of run folders: self-contained, reproducible, equal to result.json; clear errors for other folders."""

import json
import math
import re
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from common.core.errors import AuditFailed, BadData, NotFound, TandemError
from common.statistics.intervals import certainty
from referee.audit.audit import audit
from referee.cli import app
from referee.view.charts import MAX_BARS, MAX_POINTS, by_round, compared, thinned
from referee.view.pages import report, view_of
from referee.view.wording import ChartEntry, Interval, Round, against, promise, share, verdict
from tests.support import TINY, tiny
from tests.tiers import for_each

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


@pytest.mark.slow
def test_rendering_a_finished_folder_again_changes_nothing(finished):
    first = (finished / "report.html").read_bytes()
    done = CliRunner().invoke(app, ["report", str(finished)])
    assert done.exit_code == 0, done.output
    assert (finished / "report.html").read_bytes() == first


def test_a_page_shows_the_numbers_of_the_result_asks_for_nothing_and_runs_no_script(finished, copied):
    page, result = report([view_of(finished)]), result_of(finished)
    assert result["rounds"]
    for numbers in result["rounds"]:
        assert f'<td class="number">{numbers["asked"]:,.0f}</td>' in page
        assert f"{numbers['low']:.4f}" in page
        assert f"{numbers['high']:.4f}" in page
    for words in (
        f"{result['agents']['asked']:,} of {result['agents']['enrolled']:,}",
        f"{result['truth']['loss_on_target']:.4f}",
        *(result["status"], "default-src 'none'"),
    ):
        assert words in page
    altered(copied, reason=EVIL, run=EVIL)
    hostile = report([view_of(copied)])
    assert "&lt;script&gt;" in hostile
    for each in (page, hostile):
        assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)", each)
        assert not any(words in each for words in ("<script", "url(", "@import", "\x1b"))


def test_several_runs_are_compared(finished, tmp_path):
    page = tmp_path / "two.html"
    done = CliRunner().invoke(app, ["report", str(finished), str(finished), "--output", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert 'href="#run-2"' in text
    assert 'id="run-2"' in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert text.count("How to verify it") == 2


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


@for_each(
    ("break_it", "error", "words"),
    [
        (lambda run: (run / "result.json").unlink(), NotFound, "has not ended: result.json is not written yet"),
        (rewrite("result.json", lambda text: text[:99]), BadData, "result.json is not JSON"),
        (rewrite("result.json", lambda text: "[]"), BadData, "must hold a mapping, found a list"),
        (rewrite("scenario.yaml", lambda text: text + "quantum: true\n"), BadData, "this version .*quantum.*newer"),
        (lambda run: altered(run, rounds=3), BadData, "rounds must be a list"),
        (lambda run: altered(run, rounds=[{"round": 1.0}]), BadData, "cannot be read"),
        (
            lambda run: [path.unlink() for path in run.glob("*.*")],
            NotFound,
            "is not a run folder: scenario.yaml cannot",
        ),
        (shutil.rmtree, NotFound, "there is no run folder"),
    ],
)
def test_what_is_no_finished_run_is_refused_in_a_line(finished, tmp_path_factory, break_it, error, words):
    folder = tmp_path_factory.mktemp("broken") / "run"
    shutil.copytree(finished, folder, ignore=shutil.ignore_patterns("state"))
    break_it(folder)
    with pytest.raises(error, match=words) as caught:
        view_of(folder)
    assert isinstance(caught.value, TandemError)
    assert "\n" not in caught.value.detail
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert (done.exit_code, len(done.output.splitlines())) == (1, 1)


CHARTS_EVIL = "</text><script>alert(1)</script>\x1b\x00\u202e&\"'"
SVG = "{http://www.w3.org/2000/svg}"


def rounds(count: int) -> list[Round]:
    return [Round(n, Interval(0.2, 0.1, 0.3), 10, "", chosen=n == count) for n in range(1, count + 1)]


def baselines(*values: float) -> list[ChartEntry]:
    return [ChartEntry(f"way {k}", value, "baseline") for k, value in enumerate(values)]


@for_each("count", [0, 1, 3, MAX_BARS + 1, 1000])
def test_a_drawing_is_xml_with_a_title_a_description_and_its_axes_named(count):
    drawn = ElementTree.fromstring(by_round(rounds(count), 0.16, baselines(0.1), "loss on T"))
    texts = ["".join(text.itertext()) for text in drawn.iter(f"{SVG}text")]
    assert drawn.attrib["role"] == "img"
    assert drawn.attrib["aria-labelledby"] == "loss-title loss-desc"
    assert {child.attrib.get("id") for child in drawn} >= {"loss-title", "loss-desc"}
    assert {"round", "loss on T", "level 0.16"} <= set(texts)
    assert len(texts) < 60  # ticks do not grow with the rounds


def test_labels_stand_apart_right_of_the_data_within_the_drawing():
    drawn = ElementTree.fromstring(by_round(rounds(3), 0.1001, baselines(0.1, 0.1, 0.1002, 0.0, 0.001, 0.6), "loss"))
    labels = [t for t in drawn.iter(f"{SVG}text") if "way" in (t.text or "") or "level" in (t.text or "")]
    places = sorted(float(label.attrib["y"]) for label in labels)
    assert len(places) == 7
    assert min(b - a for a, b in pairwise(places)) >= 15.9
    assert all(float(label.attrib["x"]) > 720 - 176 for label in labels)
    dots = [float(dot.attrib["cx"]) for dot in drawn.iter(f"{SVG}circle")]
    assert max(dots) < 720 - 176
    height = float(drawn.attrib["viewBox"].split()[3])
    assert places[0] > 0
    assert places[-1] < height


def test_an_interval_is_drawn_where_its_numbers_are():
    drawn = by_round([Round(1, Interval(0.25, 0.0, 0.5), 1, "")], None, [], "loss")
    high, low = re.search(r'class="whisker" d="M[\d.]+ ([\d.]+)V([\d.]+)M', drawn).groups()
    middle = re.search(r'class="dot estimate" cx="[\d.]+" cy="([\d.]+)"', drawn).group(1)
    assert float(middle) == pytest.approx((float(low) + float(high)) / 2, abs=0.1)
    assert (float(high), float(low)) == (36.0, 276.0)  # the whole of the axis from 0 to 0.5


@for_each("count", [MAX_POINTS, MAX_POINTS + 1, 1000, 10_007])
def test_many_rounds_share_points_that_hold_their_intervals(count):
    many = [Round(n, Interval(0.5, 0.5 - 1 / n, 0.5 + (n % 7) / 20), 10, "") for n in range(1, count + 1)]
    points = thinned(many)
    assert len(points) <= MAX_POINTS
    assert (points[0], points[-1]) == ((1, many[0].estimate), (count, many[-1].estimate))
    before = 0
    for number, found in points:
        own = many[before:number]
        assert found.low == min(r.estimate.low for r in own)
        assert found.high == max(r.estimate.high for r in own)
        before = number
    assert len(by_round(many, 0.16, [], "loss")) < 20_000


def test_a_comparison_has_a_line_for_each_and_hostile_names_are_text():
    entries = [ChartEntry(f"run {k}", k / 10, "estimate", Interval(k / 10, 0, k / 5)) for k in range(4)]
    drawn = ElementTree.fromstring(compared(entries, None, "loss"))
    texts = ["".join(text.itertext()) for text in drawn.iter(f"{SVG}text")]
    assert [t for t in texts if t.startswith("run")] == ["run 0", "run 1", "run 2", "run 3"]
    assert "0.0000 to 0.6000" in texts
    entries = [
        ChartEntry(CHARTS_EVIL, 0.1, "baseline"),
        ChartEntry(CHARTS_EVIL, 0.2, "estimate", Interval(0.2, 0.1, 0.3)),
    ]
    for chart in (by_round(rounds(2), 0.1, entries, CHARTS_EVIL), compared(entries, 0.1, CHARTS_EVIL)):
        ElementTree.fromstring(chart)
        assert not any(text in chart for text in ("<script", "\x1b", "\x00", "\u202e"))


ANSWER = {"kind": "linear", "weights": [1.0], "threshold": 0.0}
FOUND = {"value": 0.12, "low": 0.0801, "high": 0.1599, "confidence": 0.95}
WIDE = {"value": 0.034, "low": 0.0, "high": 0.395, "confidence": 0.95}


def result(**given: Any) -> dict[str, Any]:
    return {"status": "done", "reason": "why", "answer": ANSWER, "estimate": FOUND, "truth": None, **given}


@for_each(
    ("scenario", "document", "title", "tone"),
    [
        (("mode=realizable", "alpha=0.08", "accuracy.halt_below=2"), {}, "Error below 16% with 95% confidence", "good"),
        (("mode=agnostic",), {}, "Error 12%: between 8% and 16% with 95% confidence", "good"),
        (
            ("mode=agnostic",),
            {"estimate": WIDE},
            "Inconclusive: error between 0% and 39.5% with 95% confidence",
            "open",
        ),
        (
            ("mode=realizable", "alpha=0.05", "accuracy.halt_below=2"),
            {"status": "exhausted"},
            "Not shown to be below 10%: error between 8% and 16% with 95% confidence",
            "open",
        ),
        ((), {"status": "failed", "answer": None, "estimate": None}, "No answer: the run failed", "bad"),
        ((), {"tasks": [{"status": "done"}, {"status": "exhausted"}]}, "1 of 2 tasks have what was asked for", "open"),
    ],
)
def test_the_verdict(scenario, document, title, tone):
    found = verdict(tiny(*scenario), result(**document))
    assert (found.title, found.tone, found.detail) == (title, tone, "why")


SILENT = {"missing": 0.71, "most": 0.73, "gap": None, "matters": True,
          "estimate": {"value": 0.12, "low": 0.0216, "high": 0.77317, "confidence": 0.9},
          "left_out": {"value": 0.12, "low": 0.0, "high": 0.8811, "confidence": 0.95}}  # fmt: skip
HALTED = ("mode=realizable", "alpha=0.08", "accuracy.halt_below=2")


def test_a_verdict_where_some_are_silent_is_about_all_who_were_asked_and_counts_them_against_it():
    words = "up to 71.0% of the agents asked about it did not answer"
    could = f"{words}: were they to differ from those who did, the loss could be anywhere in [0.0216, 0.7732] with 90%"
    for scenario in (HALTED, ("mode=agnostic",)):
        found = verdict(tiny(*scenario), result(silent=SILENT))
        assert found.tone == "open"
        title = "Inconclusive: error between 0% and 88.2% with 95% confidence among all who were asked"
        assert found.title == title
        assert found.detail.startswith(f"why; {could} confidence; were answers left out because of what they say, in [")
    judged = verdict(tiny("mode=agnostic"), result(silent={**SILENT, "gap": 0.8}))
    assert "confidence, and exceed the best candidate's by up to 0.8000; were answers left out" in judged.detail
    few = {**SILENT, "matters": False}
    few["estimate"] = few["left_out"] = {**SILENT["estimate"], "high": 0.155, "confidence": 0.9}
    kept = verdict(tiny(*HALTED), result(silent=few))
    assert (kept.title, kept.tone) == ("Error below 16% with 90% confidence among all who were asked", "good")
    some = {**few, "matters": True, "left_out": {**SILENT["estimate"], "low": 0.05, "high": 0.161}}
    close = verdict(tiny(*HALTED), result(silent=some))
    between = "between 5% and 16.1% with 90% confidence among all who were asked"
    assert (close.title, close.tone) == (f"Not shown to be below 16%: error {between}", "open")
    told = verdict(tiny("mode=agnostic"), result(silent={**some, "matters": False}))
    assert (told.title, told.tone) == (f"Error 12%: {between}", "good")
    unknown = verdict(tiny(*HALTED), result(silent={**SILENT, "left_out": None}))
    assert unknown.title == "Inconclusive: error between 0% and 100% with 95% confidence among all who were asked"
    assert "were answers left out because of what they say, nothing is known" in unknown.detail
    assert "however they differ from those who did, the loss is in [0.0216, 0.1550] with 90% confidence" in kept.detail
    problem = verdict(tiny(), result(estimate=None, silent={**SILENT, "estimate": None}))
    assert problem.detail == f"why; {words}: the answer is about those who did, and may be another one for all"
    assert (problem.title, problem.tone) == ("The run has an answer; it depends on those who did not answer", "open")


def test_a_result_without_a_word_of_the_silent_is_not_taken_for_one_without_silent():
    agents = {"enrolled": 600, "asked": 600, "answered": 540}
    found = verdict(tiny(*HALTED), result(agents=agents))
    assert found.detail == "why; 60 of 600 agents asked did not answer: `referee audit` says what they could change"
    assert found.tone == "open"
    assert verdict(tiny(*HALTED), result(agents={**agents, "answered": 600})).detail == "why"


@for_each(
    ("confidence", "words"), [(0.95, "95%"), (0.999, "99.9%"), (0.9999999, "99.99%"), (0.5, "50%"), (0.99996, "99.99%")]
)
def test_no_confidence_is_rounded_up(confidence, words):
    assert certainty(confidence) == words
    assert (
        f"with {words} confidence"
        in verdict(tiny("mode=agnostic"), result(estimate={**FOUND, "confidence": confidence})).title
    )


@for_each("value", [0.0, 0.16, 0.07, 0.29, 0.1601, 1 / 3, 1.0])
def test_shares_are_rounded_outward_and_decimals_stay_what_they_are(value):
    low, high = (float(share(value, up=up).rstrip("%")) / 100 for up in (False, True))
    assert low <= value + 1e-12
    assert high >= value - 1e-12
    assert high - low <= 0.001 + 1e-12
    if value in (0.16, 0.07, 0.29):
        assert low == pytest.approx(high, abs=1e-15)


@for_each(
    ("found", "level", "words"),
    [
        (Interval(0.1, 0.05, 0.15), 0.16, "below 0.16"),
        (Interval(0.3, 0.2, 0.4), 0.16, "above 0.16"),
        (Interval(0.16, 0.1, 0.2), 0.16, "0.16 is inside the interval"),
        (Interval(0.1, 0.05, 0.16), 0.16, "0.16 is inside the interval"),  # at the level is not below it
        (Interval(0.1, 0.05, 0.15), None, ""),
    ],
)
def test_an_interval_against_its_level(found, level, words):
    assert against(found, level) == words


@for_each("epsilon", [0.1, 0.5, 1.0, 8.0, 800.0])
def test_a_promise_in_plain_words_never_promises_more_than_its_formula(epsilon):
    given = {"epsilon": epsilon, "delta": 1e-4, "protects": "records", "neighbours": "one row", "covers": "run"}
    said = promise("each", given)
    factor = float(said.plain.partition("more than ")[2].partition(" times")[0].replace(",", ""))
    assert factor >= math.exp(min(epsilon, 690.0)) * (0.94 if epsilon > 13 else 1.0)
    assert f"({epsilon:g}, 0.0001)-differential privacy" == said.formula
    assert promise("each", {**given, "epsilon": None, "delta": None}).formula == "no guarantee"
