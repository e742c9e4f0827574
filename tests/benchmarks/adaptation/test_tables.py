"""From a split to a row of a table: what is private is paid for, what is measured is kept, what is missing is said."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from benchmarks.adaptation import __main__ as command
from benchmarks.adaptation import figures, measuring, ours
from benchmarks.adaptation.candidates import Candidate, best, score
from benchmarks.adaptation.datasets.scaling import NORM
from benchmarks.adaptation.paper import ACCURACY, RELATIVE_ERROR
from benchmarks.adaptation.points import METHODS, MONTHS, Point, points
from benchmarks.adaptation.splits import split
from benchmarks.adaptation.tables import TABLES, needs, scores, table
from benchmarks.figures.store import ResultFile, Row
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.selection import epsilon_of_selection
from curator.learners.adaptation.domains import Side
from tests.benchmarks.adaptation.toy import pair

KEYS = ["table", "dataset", "method", "mean", "deviation", "paper_mean", "paper_deviation", "note"]
SMALL_SETTINGS = {"alpha": 0.5, "iterations": 20}
SMALL = {"regression": {"alpha": [0.5], "iterations": [20]}, "classification": {"alpha": [0.5], "iterations": [20]}}


def row(point, number, test):
    return Row(point.name, number, number, 0.0, {"test": test, "settings": {}})


@pytest.fixture
def quick(monkeypatch):
    """Make every data set a small one, and every grid one setting."""
    toys = {point.dataset: point for point in points()}
    loaders = {
        name: lambda data, name=name: pair("classification" if name in ACCURACY else "regression", name, 2)
        for name in toys
    }
    monkeypatch.setattr(measuring, "DATASETS", loaders)
    monkeypatch.setattr(figures, "DATASETS", loaders)
    monkeypatch.setattr(ours, "GRIDS", SMALL)
    for module in (measuring, figures):
        module._pair.cache_clear()
    yield
    for module in (measuring, figures):
        module._pair.cache_clear()


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_private_choice_costs_no_more_than_is_stated(monkeypatch, task):
    charged = []
    monkeypatch.setattr(ours, "fit", lambda pair, domains, settings, mu, source: charged.append(mu) or np.zeros(4))
    monkeypatch.setattr(ours, "noisy_sum", lambda total, parts, mu, source: charged.append(mu) or 0)
    small = pair(task)
    list(ours.chosen_privately(small, split(small, 0), 3.0))
    # Fit and score see disjoint people: a run is as private as the weaker of the two.
    assert epsilon_of_selection(max(charged), ours.LAW, ours.DELTA) <= 3.0
    assert max(charged) < mu_allowed(3.0, ours.DELTA)


def test_scores_are_of_losses_in_the_unit_interval():
    small = pair()
    parts = split(small, 0)
    largest = ours.largest_residual(small, parts)
    assert 0 <= ours.losses(parts, np.zeros(4), largest) <= 20 << 20
    # Worst where every residual is beyond the public bound.
    assert ours.losses(parts, np.array([0.0, 0.0, 0.0, 1e6]), largest) == 20 << 20


def test_the_score_clips_where_the_public_source_says():
    small = pair()
    parts = split(small, 0)
    other = replace(parts, train=parts.test, validation=parts.train)
    assert ours.largest_residual(small, parts) == ours.largest_residual(small, other)
    wider = Side(parts.source.features, parts.source.responses[::-1].copy())
    assert ours.largest_residual(small, replace(parts, source=wider)) > 2.0 * ours.largest_residual(small, parts)


@pytest.mark.parametrize("method", ["CnvxAdap, epsilon 10, chosen privately", "CnvxAdap, epsilon 10, tuned for free"])
def test_private_methods_repeat(quick, method):
    first, again = (measuring.measure(Point("wind", "none", method), 1, None).measured for _ in range(2))
    assert first == again


def test_ours_learns_without_privacy(quick):
    for dataset, method in (("wind", "CnvxAdap"), ("adult", "NCnvxAdap")):
        found = measuring.measure(Point(dataset, "none", method), 0, None).measured
        reference = measuring.measure(Point(dataset, "none", "train on target"), 0, None).measured
        assert found["test"] < 1.2 * reference["test"] if dataset == "wind" else found["test"] > 0.8


def test_the_validation_rows_choose():
    small = pair()
    parts = split(small, 0)
    good, bad = METHODS["train on target"](small, parts), [Candidate(np.zeros(4))]
    chosen = best(parts, [*bad, *good])
    assert score("regression", parts.validation, chosen.weights) < score("regression", parts.validation, np.zeros(4))
    assert NORM == 1.0


def test_errors_are_relative_to_training_on_the_target_split_by_split():
    rows = [row(Point("wind", "none", "train on target"), number, value) for number, value in enumerate((2.0, 4.0))]
    rows += [row(Point("wind", "none", "SBest"), number, value) for number, value in enumerate((1.0, 3.0, 9.0))]
    (found,) = table(1, scores(rows))
    # The third split has nothing to compare with.
    assert list(found) == KEYS
    assert (found["mean"], found["deviation"]) == (0.625, 0.177)
    assert (found["paper_mean"], found["paper_deviation"]) == RELATIVE_ERROR["wind"]["SBest"]
    assert "2 splits only" in found["note"]


def test_accuracies_are_per_cent_and_copies_are_told():
    point = Point("south_german_credit", "leaky", "SBest")
    (found,) = table(2, scores([row(point, 0, 0.75), row(point, 1, 0.77)]))
    assert found["dataset"] == "south_german_credit (leaky copies)"
    assert found["mean"] == 76.0
    assert "test rows were trained on" in found["note"]


def test_wind_has_the_range_over_all_months():
    rows = []
    for place, name in enumerate(("wind", *MONTHS)):
        for number in range(2):
            rows.append(row(Point(name, "none", "train on target"), number, 1.0))
            rows.append(row(Point(name, "none", "SBest"), number, 1.0 + place / 10))
    (found,) = table(1, scores(rows))
    assert found["mean"] == 1.0
    assert "means 1.000 to 1.600 over the seven months" in found["note"]


def test_earlier_rows_stand_beside_those_that_are_redone():
    point, reference = (
        Point("wind", "none", "CnvxAdap, epsilon 1, chosen privately"),
        Point("wind", "none", "train on target"),
    )
    rows = [row(reference, number, 1.0) for number in range(2)]
    rows += [row(point, number, 1.1) for number in range(2)]
    rows += [replace(row(point, number, 1.9), point="earlier; " + point.name) for number in range(2)]
    now, before = table(1, scores(rows))
    assert (now["method"], now["mean"]) == (point.method, 1.1)
    assert (before["method"], before["mean"]) == (f"{point.method} (earlier)", 1.9)
    assert "residuals clipped at Lambda r + 1" in before["note"]
    assert "before" not in now["note"]


def test_every_number_of_the_paper_has_a_row():
    at_hand = {(point.dataset, point.method) for point in points()}
    for printed in (RELATIVE_ERROR, ACCURACY):
        for dataset, methods in printed.items():
            for method in methods:
                assert (dataset, method) in at_hand
    assert {method for methods in TABLES.values() for method in methods} <= set(METHODS)


def test_the_command_measures_what_is_missing_and_prints_one_list(quick, monkeypatch, tmp_path, capsys):
    few = (Point("wind", "none", "train on target"), Point("wind", "none", "CnvxAdap, epsilon 1, tuned for free"))
    monkeypatch.setattr(command, "points", lambda: few)
    run = partial(
        command.main, ["--json", "--measure", "--splits", "2", "--output", str(tmp_path), "--data", str(tmp_path)]
    )
    assert run() == 0
    first = json.loads(capsys.readouterr().out)
    lines = (tmp_path / "adaptation.jsonl").read_bytes()
    assert [list(found) for found in first] == [KEYS]
    assert (
        command.main(["--json", "--measure", "--splits", "2", "--output", str(tmp_path), "--data", str(tmp_path)]) == 0
    )
    assert json.loads(capsys.readouterr().out) == first
    assert (tmp_path / "adaptation.jsonl").read_bytes() == lines


def test_a_table_has_what_it_is_compared_with():
    reference = Point("gas_drift", "none", "train on target")
    assert needs(3, reference)
    assert reference.method not in TABLES[3]
    assert not needs(2, reference)
    assert needs(6, Point("adult", "none", "KMM"))


def test_without_data_and_results_the_command_says_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TANDEM_DATA", str(tmp_path / "nowhere"))
    assert command.main(["--json", "--output", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "--data or TANDEM_DATA" in printed.err


def test_committed_results_need_no_data(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TANDEM_DATA", str(tmp_path / "nowhere"))
    assert command.main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {entry["table"] for entry in found} == {"1", "2", "3", "6"}
    assert all(list(entry) == KEYS for entry in found)
    assert command.main(["--table", "3"]) == 0
    assert "Not at hand" in capsys.readouterr().out


def test_figures_draw_what_is_there(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "SIZES", (50,))
    monkeypatch.setattr(figures, "EPSILONS", (10.0,))
    monkeypatch.setattr(figures, "SETTINGS", {"gas_drift": SMALL_SETTINGS, "adult": SMALL_SETTINGS})
    rows = [figures.measure(name, number, tmp_path) for name, number in figures.missing([], 1)]
    assert all(figures.holds(found) and found.point in figures.names() for found in rows)
    assert figures.missing(rows, 1) == []
    figures.draw(rows, tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn >= {f"adaptation-figure{number}.{ending}" for number in (1, 2, 3) for ending in ("svg", "png")}
    assert not scores(found for found in rows if not figures.holds(found))


def test_results_are_kept_as_they_come(tmp_path):
    file = ResultFile(tmp_path / "adaptation.jsonl")
    point = points()[0]
    with file.writing() as append:
        append(row(point, 0, 1.0))
    assert measuring.missing((point,), file.rows(), 3) == [(point, 1), (point, 2)]
