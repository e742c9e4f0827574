"""No error of a display ends a run, hides its result or changes its exit status."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deploy.running import carry_out
from referee.audit.audit import audit
from referee.cli import app
from referee.protocols.base import small_ball
from referee.view import charts, show
from tests.support import TINY
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


@for_each("breaks", ["beginning", "a line", "end", "all"])
def test_a_display_that_fails_is_one_warning_and_the_run_goes_on(
    breaks: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @contextmanager
    def watching(*_: Any) -> Iterator[Progress]:
        if breaks == "beginning":
            broken()
        yield broken if breaks in ("a line", "all") else lambda text, numbers: None
        if breaks in ("end", "all"):
            broken()

    folder = tmp_path / "run"
    with caplog.at_level(logging.WARNING):
        found = carry_out(small_ball("baselines=[]"), "embedded", seed=1, output=folder, token="", watching=watching)
    assert stored(folder)["status"] == found["status"]
    told = [record.getMessage() for record in caplog.records if "progress is not shown" in record.getMessage()]
    assert len(told) == (2 if breaks == "all" else 1)


def test_an_interrupt_of_a_display_is_an_interrupt(tmp_path: Path) -> None:
    @contextmanager
    def watching(*_: Any) -> Iterator[Progress]:
        def interrupted(text: str, numbers: dict[str, float]) -> None:
            raise KeyboardInterrupt

        yield interrupted

    with pytest.raises(KeyboardInterrupt):
        carry_out(small_ball(), "embedded", seed=1, output=tmp_path / "run", token="", watching=watching)


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
def test_full_devices_and_closed_pipes_end_no_run(tmp_path: Path) -> None:
    for name, redirection in {
        "full": ">/dev/full 2>/dev/full",
        "out": ">/dev/full",
        "pipe": "2>&1 | true",
        "closed": ">&- 2>&-",
    }.items():
        folder = tmp_path / name
        line = shlex.join([*PROGRAM, "run", "ball", "--seed", "1", "--output", str(folder), *SETS])
        script = f"{line} {redirection}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (name, done.stderr.decode())
        assert b"Traceback" not in done.stderr
        stored(folder)
        assert (folder / "report.html").exists()
