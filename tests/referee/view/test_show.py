"""What a person sees in the terminal: every command says what it did and what to do next."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from deploy.experiment import reading
from referee.cli import app
from referee.view import show
from tests.support import TINY, tiny

SETS = [part for override in TINY for part in ("--set", override)]


def said(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture
def wide(monkeypatch):
    for name in ("_OUT", "_ERR"):
        monkeypatch.setattr(getattr(show, name), "_width", 200)


@pytest.mark.usefixtures("wide")
def test_a_run_tells_its_rounds_its_result_and_what_to_do_next(tmp_path):
    folder = tmp_path / "run"
    output = said("run", "ball", "--seed", "3", "--output", str(folder), *SETS, "--set", "baselines=[curator-only]")
    assert "ball: A ball" in output
    assert "(seed 3)" in output
    assert "round 1: loss on T" in output
    assert "baseline curator-only" in output
    result = json.loads((folder / "result.json").read_text())
    assert result["truth"]["reading"] in output
    assert "people labelled -1" in output
    for words in (f"{result['status']}: ", "curator guarantees", "epsilon = 60", "run folder", "referee audit"):
        assert words in output
    report = (folder / "report.md").read_text()
    assert "figures/loss.svg" in report
    assert "people labelled -1" in report
    assert (folder / "figures" / "loss.svg").stat().st_size > 1000
    assert yaml.safe_load((folder / "scenario.yaml").read_text())["curator"]["n"] == 1200
    assert "verified" in said("audit", str(folder))


@pytest.mark.usefixtures("wide")
def test_the_plan_shows_both_bounds_their_sources_and_what_is_violated():
    output = said("plan", "ball", "--set", "curator.learner.steps=10")
    assert "141,570" in output
    assert "Algorithm 2" in output
    assert "docs/corrections.md" in output
    assert "violated accuracy: steps = 10" in output


@pytest.mark.usefixtures("wide")
def test_the_list_names_every_scenario_and_every_word_a_scenario_may_use():
    output = said("list")
    for words in (
        "ball-nonprivate",
        "adult-biased",
        "learners: chosen, cnvx-adap, exponential, model-agnostic, ncnvx-adap, parity, scikit, sgd",
        "warner",
        "Next: referee plan",
    ):
        assert words in output
    assert {"ball", "sparse", "adult"} <= {s["name"] for s in json.loads(said("list", "--json"))}


def test_a_live_display_shows_the_round(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(show._ERR, "_force_terminal", True)
    numbers = {"round": 1.0, "rounds": 3.0, "asked": 10.0, "value": 0.25, "low": 0.1, "high": 0.4}
    with show.live(tiny(), 5, tmp_path, quiet=False) as on_progress:
        on_progress("waiting for agents", {})
        on_progress("round 1", numbers)
    assert "0.2500" in capsys.readouterr().err


BASELINES = {"curator-only": {"loss_on_target": 0.2, "note": ""}, "optimum": {"loss_on_target": 0.1, "note": ""}}


@pytest.mark.parametrize(
    ("iterations", "hybrid", "baselines", "words"),
    [
        (3, 0.15, BASELINES, "took 0.050 off"),
        (1, 0.15, BASELINES, "nothing was reweighed"),
        (3, 0.2, BASELINES, "did not suffice"),
        (3, 0.2, {**BASELINES, "optimum": {"loss_on_target": 0.195, "note": ""}}, "nothing is to repair"),
        (3, 0.1, {"curator-only": BASELINES["curator-only"]}, "took 0.100 off the loss of the curator alone"),
        (3, 0.1, {}, ""),
    ],
)
def test_the_reading_says_what_was_gained_or_why_nothing_was(iterations, hybrid, baselines, words):
    assert words in reading(iterations, hybrid, baselines)
