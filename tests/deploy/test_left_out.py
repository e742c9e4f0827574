"""What a run is compared with may fail: it is then left out with its reason, and the run keeps its answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from common.core import machine
from common.scenario import loading
from deploy import experiment
from deploy.experiment import complete
from referee.audit.audit import audit
from referee.cli import app
from referee.view import show
from tests.support import TINY

SETS = [part for override in TINY for part in ("--set", override)]
LINEAR = {"kind": "linear", "weights": [0.0] * 14, "threshold": 1.0}
ANSWER = {"answer": LINEAR, "iterations": 1, "agents": {"asked": 100}}


@pytest.fixture
def no_room_for_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full wherever a baseline works."""
    really = machine.available_disk
    monkeypatch.setattr(machine, "available_disk", lambda folder: 0 if "baseline-" in str(folder) else really(folder))
    for console in (show._OUT, show._ERR):
        monkeypatch.setattr(console, "_width", 400)


@pytest.mark.slow
@pytest.mark.usefixtures("no_room_for_baselines")
def test_a_baseline_without_room_is_left_out_with_a_word_and_the_run_gives_its_answer(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = CliRunner().invoke(app, ["run", "ball", "--seed", "1", "--output", str(folder), *SETS])
    assert done.exit_code == 0, done.output
    result = json.loads((folder / "result.json").read_text())
    assert result["answer"] is not None
    truth = result["truth"]
    assert set(truth["left_out"]) == {"curator-only", "agents-only", "agents-once"}
    assert "1,200 people of 33 bytes needs 256 MiB of disk" in truth["left_out"]["curator-only"]
    assert list(truth["baselines"]) == ["optimum"]  # which needs no disk
    report = (folder / "report.html").read_text()
    said = " ".join(done.output.split())
    for name, why in truth["left_out"].items():
        assert f"baseline {name} is left out: {why}" in said  # while it goes on
        assert f"{name} left out: {why}" in " ".join(said.replace("│", "").split())  # in the table at the end
        assert f'<th scope="row">{name}</th><td>left out: {why}</td>' in report
    assert audit(folder).status == result["status"]


@pytest.mark.slow  # planning for a data set of this size
def test_a_truth_that_cannot_be_found_out_is_left_out_with_a_word(tmp_path: Path) -> None:
    asked = loading.load("adult", [f"data={tmp_path}"])  # a folder without the tables
    told: list[str] = []
    (tmp_path / "run").mkdir()
    completed = complete(ANSWER, asked, None, tmp_path / "run", lambda text, numbers: told.append(text))
    assert completed["answer"] == ANSWER["answer"]
    left_out = completed["truth"]["left_out"]
    assert list(left_out) == ["loss_on_target", *asked.baselines]
    assert "adult.data" in left_out["loss_on_target"]
    assert f"the true loss is left out: {left_out['loss_on_target']}" in told
    assert "loss_on_target" not in completed["truth"]


@pytest.mark.slow
def test_an_answer_is_on_disk_before_anything_is_compared_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a bug in a comparison, or an interrupt, leaves a run folder that can be audited."""

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_baselines", interrupted)
    folder: Path = tmp_path / "run"
    done = CliRunner().invoke(app, ["run", "ball", "--json", "--seed", "1", "--output", str(folder), *SETS])
    assert done.exit_code == 130
    result = json.loads((folder / "result.json").read_text())
    assert (result["answer"] is None, result["truth"]) == (False, None)
    assert audit(folder).status == result["status"]
