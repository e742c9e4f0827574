"""The figures measure what they say, on scenarios that are made small, and draw whatever is there."""

from __future__ import annotations

import pytest

from benchmarks.figures import figure2, figure3
from common.scenario import loading


@pytest.fixture
def small(monkeypatch):
    """Make the scenarios of figures small, whatever they ask for."""
    load = loading.load

    def smaller(*overrides):
        monkeypatch.setattr(loading, "load", lambda name, given: load(name, [*given, *overrides]))

    return smaller


@pytest.mark.slow
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


@pytest.mark.slow
def test_figure_3_judges_every_round(small, monkeypatch, tmp_path):
    small("curator.n=20000", "curator.learner.steps=20000", "curator.rounds=2", "agents.count=3000000")
    monkeypatch.setattr(figure3, "JUDGES", 2000)
    found = figure3.repeat("R=75M D=3", 1)
    assert found["rounds"] == len(found["curve"])
    assert (found["first loss"], found["last loss"]) == (found["curve"][0], found["curve"][-1])
    figure3.draw({"R=75M D=3": [found], "R=50M D=3 full": [found, found]}, tmp_path / "figure3.svg")
    assert (tmp_path / "figure3.svg").read_text("utf-8").startswith("<?xml")


def test_the_points_of_figure_3_are_the_papers_grid():
    assert {steps for steps, _, _ in figure3.POINTS.values()} == {50, 75, 100}
    assert {n for _, _, n in figure3.POINTS.values()} == {14_000_000, 324_700_000}
    assert loading.load("ball-paper-size").curator.n == figure3.FULL


@pytest.mark.parametrize("name", ["ball-paper-nonprivate", "ball-paper-size"])
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
