"""No error of a display ends a run, hides its result or changes its exit status."""

import base64
import io
import json
import logging
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core import machine
from common.core.plain import JsonFormatter
from common.data.population import open_records
from common.numerics.randomness import subseed
from common.scenario import loading
from deploy import baselines, deployment
from deploy.baselines import complete
from deploy.running import carry_out
from referee.audit.audit import audit
from referee.cli import app
from referee.protocols.base import small_ball
from referee.view import charts, show
from tests.support import TINY, quiet, tiny
from tests.tiers import for_each

SETS = [part for override in [*TINY, "baselines=[]"] for part in ("--set", override)]
PROGRAM = [sys.executable, "-c", "from referee.cli import main; main()"]
Progress = Callable[[str, dict[str, float]], None]


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("this cannot be drawn:\nat all")


def stored(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert audit(folder).status == result["status"]
    return result


@for_each("breaks", ["beginning", "a line", "end", "all", "interrupt"])
def test_a_display_that_fails_is_one_warning_and_the_run_goes_on_but_an_interrupt_is_one(
    breaks: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(text: str, numbers: dict[str, float]) -> None:
        raise KeyboardInterrupt

    @contextmanager
    def watching(*_: Any) -> Iterator[Progress]:
        if breaks == "beginning":
            broken()
        lines = {"a line": broken, "all": broken, "interrupt": interrupted}
        yield lines.get(breaks, quiet)
        if breaks in ("end", "all"):
            broken()

    folder = tmp_path / "run"
    if breaks == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            carry_out(small_ball(), "embedded", seed=1, output=folder, token="", watching=watching)
        return
    with caplog.at_level(logging.WARNING):
        found = carry_out(small_ball("baselines=[]"), "embedded", seed=1, output=folder, token="", watching=watching)
    assert stored(folder)["status"] == found["status"]
    told = [record.getMessage() for record in caplog.records if "progress is not shown" in record.getMessage()]
    assert len(told) == (2 if breaks == "all" else 1)


def test_a_table_and_a_report_that_fail_leave_the_result_its_status_and_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "a b"
    monkeypatch.setattr(show._OUT, "print", broken)
    monkeypatch.setattr(charts, "by_round", broken)
    done = CliRunner().invoke(app, ["run", "ball", "--seed", "1", "--output", str(folder), *SETS])
    assert (done.exit_code, done.exception) == (0, None), done.output
    stored(folder)
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if "cannot be shown here" in line]
    again = f"referee report '{folder}'"
    assert lines == [
        rf"the result cannot be shown here (RuntimeError: this cannot be drawn:\x0aat all); it is stored: {again}"
    ]
    (warning,) = (record.getMessage() for record in caplog.records if "report.html" in record.getMessage())
    assert warning.endswith(f"the result is stored: {again}")
    assert not (folder / "report.html").exists()
    monkeypatch.undo()
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    assert (folder / "report.html").exists()


@pytest.mark.slow
@for_each(
    "redirection",
    [">/dev/full 2>/dev/full", pytest.param(">/dev/full", marks=pytest.mark.thorough), "2>&1 | true", ">&- 2>&-"],
)
def test_full_devices_and_closed_pipes_end_no_run(tmp_path: Path, redirection: str) -> None:
    folder = tmp_path / "run"
    line = shlex.join([*PROGRAM, "run", "ball", "--seed", "1", "--output", str(folder), *SETS])
    script = f"{line} {redirection}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    stored(folder)
    assert (folder / "report.html").exists()


OUT_SETS = SETS[:-2]
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
    done = CliRunner().invoke(app, ["run", "ball", "--seed", "1", "--output", str(folder), *OUT_SETS])
    assert done.exit_code == 0, done.output
    truth = stored(folder)["truth"]
    assert set(truth["left_out"]) == {"curator-only", "agents-only", "agents-once"}
    assert "1,200 people of 33 bytes needs 256 MiB of disk" in truth["left_out"]["curator-only"]
    assert list(truth["baselines"]) == ["optimum"]  # which needs no disk
    report = (folder / "report.html").read_text()
    said = " ".join(done.output.split())
    for name, why in truth["left_out"].items():
        assert f"baseline {name} is left out: {why}" in said  # while it goes on
        assert f"{name} left out: {why}" in " ".join(said.replace("│", "").split())  # in the table at the end
        assert f'<th scope="row">{name}</th><td>left out: {why}</td>' in report


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

    monkeypatch.setattr(baselines, "run_baselines", interrupted)
    folder: Path = tmp_path / "run"
    done = CliRunner().invoke(app, ["run", "ball", "--json", "--seed", "1", "--output", str(folder), *OUT_SETS])
    assert done.exit_code == 130
    result = stored(folder)
    assert (result["answer"] is None, result["truth"]) == (False, None)


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Gather what every logger says at every level, as ``TANDEM_LOG_FORMAT=json`` writes it."""
    text, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonFormatter())
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def forms(raw: bytes) -> set[str]:
    return {raw.hex(), base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}


def private(state: Path, chosen) -> set[str]:
    """Return what no line may hold: keys, tokens, every feature of the sample in each of its spellings, raw answers."""
    found = {deployment._TOKEN}
    for key in state.rglob("*.key"):
        found |= forms(key.read_bytes())
    for side, spec, count in (("curator", chosen.source, chosen.curator.n), ("agents", chosen.target, 200)):
        name = "source" if side == "curator" else "target"
        people = open_records(spec, None, subseed(1, name), count, None)
        features = people.records(np.arange(count), None).features.ravel()
        spelled = {f"{value:.{digits}g}" for value in features for digits in (5, 6, 8)} | {
            repr(float(v)) for v in features
        }
        found |= {word for word in spelled if len(word) >= 7}
    for report in state.rglob("answered/*"):
        body = report.read_bytes().rpartition(b"}\n")[2]
        found |= forms(body) if len(body) >= 8 else set()
    return found


def leaks(line: str, secrets: set[str]) -> set[str]:
    """Return which secrets a line holds; a list of three numbers or more counts as records."""
    found = {word for word in secrets if word in line}
    return found | set(re.findall(r"\[[-\d.e]+(?:[, ]+[-\d.e]+){2,}", line))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[list[str], set[str]]:
    state, chosen = tmp_path_factory.mktemp("state"), tiny()
    with logged() as text:
        deployment.Embedded(state).run(chosen, 1, "run-7", quiet)
    return text.getvalue().splitlines(), private(state, chosen)


@pytest.mark.slow
def test_every_line_of_a_run_is_json_and_names_it(run):
    lines = [json.loads(line) for line in run[0]]
    ours = [line for line in lines if line["logger"].startswith("tandem")]
    assert {line["logger"] for line in ours} == {"tandem.referee", "tandem.curator", "tandem.agent"}
    assert all(line["run"] == "run-7" for line in ours)
    said = [line["message"] for line in ours]
    assert said[0] == "the run begins, or goes on"
    assert said[-1] == "the run has ended: exhausted"
    assert "the run has the budget" in said
    assert sum("is charged as" in message for message in said) == sum("is released" in message for message in said) > 2


def test_no_line_holds_anything_private_and_a_leak_would_be_found(run):
    lines, secrets = run
    assert len(secrets) > 10_000
    assert [found for line in lines if (found := leaks(line, secrets))] == []
    for word in sorted(secrets)[:: len(secrets) // 50]:
        assert leaks(f'{{"message": "bad record {word}"}}', secrets)
    assert leaks('{"message": "row [0.25, -1.0, 3]"}', set())
