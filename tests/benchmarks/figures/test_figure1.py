"""Figure 1: a repetition on a small scale, the rule that gives up, and the pictures."""

import pytest

from benchmarks.figures import figure1
from common.scenario import loading

MEASURED = {
    "status": "halted",
    "rounds": 45,
    "loss": 0.02,
    "loss on negative": 0.3,
    "loss on positive": 0.017,
    "first loss": 0.04,
    "least loss": 0.02,
    "last average": 0.03,
    "curve": [0.04, 0.03, 0.02],
}


@pytest.fixture
def small(monkeypatch):
    sizes = [f"{side}.distribution.d=40" for side in ("source", "target")]
    load = loading.load
    monkeypatch.setattr(loading, "load", lambda name, more: load(name, [*more, *sizes, "curator.learner.draws=400"]))
    monkeypatch.setattr(figure1, "ORACLE", 2000)
    monkeypatch.setattr(figure1, "JUDGES", 2000)
    monkeypatch.setattr(figure1, "WINDOW", 10)


@pytest.mark.slow
def test_a_repetition_ends_with_a_hypothesis_and_is_the_same_again(small):
    measured = figure1.repeat("10K", 1)
    assert measured["status"] in ("halted", "given up")
    assert (measured["status"] == "halted") == (measured["least loss"] <= 0.02)
    assert len(measured["curve"]) == -(-measured["rounds"] // figure1.EVERY)
    assert measured["loss"] == pytest.approx(
        0.01 * measured["loss on negative"] + 0.99 * measured["loss on positive"], abs=0.02
    )
    assert figure1.repeat("10K", 1) == measured
    assert figure1.repeat("10K", 2) != measured


def test_a_run_is_given_up_at_the_end_of_a_window_that_is_no_better_than_one_percent():
    window = figure1.WINDOW
    assert not figure1.stalled([0.04] * window)
    assert figure1.stalled([0.04] * window + [0.0397] * window)
    assert not figure1.stalled([0.04] * window + [0.0395] * window)
    assert not figure1.stalled([0.04] * window + [0.0397] * (window - 1))
    # Against the best window before, not the last one.
    assert figure1.stalled([0.03] * window + [0.04] * window + [0.0299] * window)


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_pictures_are_drawn_of_whatever_points_there_are(tmp_path, ending):
    path = tmp_path / f"figure1.{ending}"
    figure1.draw({"10K": [MEASURED], "90K": [MEASURED, {**MEASURED, "rounds": 60}]}, path)
    assert path.stat().st_size > 5000
