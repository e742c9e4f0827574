"""The figures measure what they say, on scenarios that are made small, and draw whatever is there."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.figures import figure1, figure2, figure3
from benchmarks.figures.base import Figure, Measured, Results
from benchmarks.figures.plotting import band, boxes, panels
from benchmarks.figures.running import missing, run
from benchmarks.figures.store import ResultFile, Row
from common.core.errors import BadInput
from common.scenario import loading
from tests.tiers import for_each


@pytest.fixture
def small(monkeypatch):
    """Make the scenarios of figures small, whatever they ask for."""
    load = loading.load

    def smaller(*overrides):
        monkeypatch.setattr(loading, "load", lambda name, given: load(name, [*given, *overrides]))

    return smaller


def test_figure_2_follows_both_losses_to_the_end(small, monkeypatch, tmp_path):
    small("curator.n=2000", "curator.rounds=12", "curator.learner.steps=500")
    monkeypatch.setattr(figure2, "JUDGES", 2000)
    monkeypatch.setattr(figure2, "WITNESSES", 1000)
    found = figure2.repeat("75K", 1)
    assert (found["status"], found["rounds"]) == ("exhausted", 12)
    rounds, hinges, mistakes = found["curve"]
    # The last entry is of the answer, on other people: without a halt, the best hypothesis of all rounds.
    assert rounds == [1, 11, 12]
    assert len(hinges) == len(mistakes) == 3
    # Ellipses that begin at w = b = 1 in 200 dimensions call everybody positive: 30% of T are not.
    assert found["mistakes"] == pytest.approx(0.3, abs=0.06)
    assert found["least mistakes on the way"] == pytest.approx(min(mistakes[:-1]), abs=1e-5)
    figure2.draw({"75K": [found], "200K": [found, found]}, tmp_path / "figure2.svg")
    assert (tmp_path / "figure2.svg").read_text("utf-8").startswith("<?xml")


def test_figure_3_judges_every_round(small, monkeypatch, tmp_path):
    small("curator.n=20000", "curator.learner.steps=20000", "curator.rounds=2", "agents.count=3000000")
    monkeypatch.setattr(figure3, "JUDGES", 2000)
    found = figure3.repeat("R=75M D=3", 1)
    assert found["rounds"] == len(found["curve"])
    assert (found["first loss"], found["last loss"]) == (found["curve"][0], found["curve"][-1])
    figure3.draw({"R=75M D=3": [found], "R=50M D=3 full": [found, found]}, tmp_path / "figure3.svg")
    assert (tmp_path / "figure3.svg").read_text("utf-8").startswith("<?xml")


@for_each("name", ["ball-paper-nonprivate", "ball-paper-size"])
def test_the_papers_numbers_are_what_they_say(name):
    """Constants that are written out in the scenarios, against their formulas."""
    chosen = loading.load(name)
    learner, distribution = chosen.curator.learner, chosen.source.distribution
    assert chosen.divergence.chi_squared == pytest.approx(distribution.chi_squared(), rel=1e-12)
    assert chosen.curator.eta == pytest.approx(chosen.alpha / 8)
    # Gradients of records of that norm, intercept included, are never clipped.
    assert learner.clip**2 == pytest.approx(distribution.norm**2 + learner.intercept**2, rel=1e-9)
    assert learner.diameter**2 == pytest.approx(distribution.d + 1, rel=1e-9)
    if name == "ball-paper-size":
        assert chosen.curator.kappa == pytest.approx(chosen.alpha / (4 * chosen.divergence.chi_squared), rel=1e-9)
        assert learner.noise**2 == pytest.approx(20.0)


@pytest.fixture
def figure1_small(monkeypatch):
    sizes = [f"{side}.distribution.d=40" for side in ("source", "target")]
    load = loading.load
    monkeypatch.setattr(loading, "load", lambda name, more: load(name, [*more, *sizes, "curator.learner.draws=400"]))
    monkeypatch.setattr(figure1, "ORACLE", 2000)
    monkeypatch.setattr(figure1, "JUDGES", 2000)
    monkeypatch.setattr(figure1, "WINDOW", 10)


def test_a_repetition_ends_with_a_hypothesis_and_is_the_same_again(figure1_small, tmp_path):
    measured = figure1.repeat("10K", 1)
    assert measured["status"] in ("halted", "given up")
    assert (measured["status"] == "halted") == (measured["least loss"] <= 0.02)
    assert len(measured["curve"]) == -(-measured["rounds"] // figure1.EVERY)
    assert measured["loss"] == pytest.approx(
        0.01 * measured["loss on negative"] + 0.99 * measured["loss on positive"], abs=0.02
    )
    again, other = figure1.repeat("10K", 1), figure1.repeat("10K", 2)
    assert again == measured != other
    figure1.draw({"10K": [measured], "90K": [measured, other]}, tmp_path / "figure1.png")
    assert (tmp_path / "figure1.png").stat().st_size > 5000


def test_a_run_is_given_up_at_the_end_of_a_window_that_is_no_better_than_one_percent():
    window = figure1.WINDOW
    assert not figure1.stalled([0.04] * window)
    assert figure1.stalled([0.04] * window + [0.0397] * window)
    assert not figure1.stalled([0.04] * window + [0.0395] * window)
    assert not figure1.stalled([0.04] * window + [0.0397] * (window - 1))
    # Against the best window before, not the last one.
    assert figure1.stalled([0.03] * window + [0.04] * window + [0.0299] * window)


def repeat(point: str, seed: int) -> Measured:
    """Measure three rounds; the point ``slow`` takes its time."""
    if point == "slow":
        time.sleep(0.2)
    if point == "deadly":
        os._exit(9)
    return {"loss": seed % 100 / 100, "rounds": 3, "curve": [0.5, 0.4, seed % 100 / 100], "why": "toy"}


def draw(results: Results, path: Path) -> None:
    """Draw two panels."""
    with panels(path, ("Loss", "Along the run")) as (left, right):
        boxes(left, [[m["loss"] for m in group] for group in results.values()], list(results), "black")
        for point, group in results.items():
            band(right, [([1, 2, 3], m["curve"]) for m in group], "black", point)


FIGURE = Figure("toy", ("quick", "slow"), repeat, draw, repetitions=4)
DEADLY = Figure("deadly", ("deadly",), repeat, draw, repetitions=1)


ROWS = [Row(point, k, FIGURE.seed(point, k), 0.5, repeat("quick", k)) for point in FIGURE.points for k in (1, 0)]


def stored(path, rows):
    file = ResultFile(path)
    with file.writing() as append:
        for row in rows:
            append(row)
    return file


def test_a_line_that_was_cut_off_is_none_and_is_written_anew_by_one_process_at_a_time(tmp_path):
    file = stored(tmp_path / "toy.jsonl", ROWS)
    whole = file.path.read_bytes()
    for cut in (1, 20):
        file.path.write_bytes(whole[:-cut])
        assert file.rows() == ROWS[:-1]
    assert stored(file.path, ROWS[-1:]).rows() == ROWS
    assert file.path.read_bytes() == whole
    with file.writing(), pytest.raises(BadInput, match="another process"), file.writing():
        pass


def test_processes_measure_what_the_seeds_say_and_a_killed_one_is_told_of():
    kept: list[Row] = []
    run(FIGURE, missing(FIGURE, FIGURE.points, 2, []), 2, kept.append)
    assert {(row.point, row.repetition) for row in kept} == {(p, k) for p in FIGURE.points for k in range(2)}
    assert all(row.measured == repeat("quick", FIGURE.seed(row.point, row.repetition)) for row in kept)
    with pytest.raises(BadInput, match="memory"):
        run(DEADLY, [("deadly", 0)], 1, lambda row: None)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes below /proc")
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    """Kill the whole run after its first results: they stay as they are, and nothing is measured twice."""
    given = ["2", "--output", str(tmp_path), "--points", "slow", "--repetitions", "8", "--json"]
    modules = {2: __name__}
    script = f"import sys; from benchmarks.figures.__main__ import main; sys.exit(main({given}, {modules}))"
    file = ResultFile(tmp_path / "toy.jsonl")
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    while len(file.rows()) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    workers = [int(task) for task in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 600
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived the run"
        time.sleep(0.02)
    before = file.rows()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    after = file.rows()
    assert after[: len(before)] == before
    assert sorted(row.repetition for row in after) == list(range(8))
    assert json.loads(done.stdout)[0]["repetitions"] == 8
    assert {"toy.svg", "toy.png"} <= {path.name for path in tmp_path.iterdir()}
