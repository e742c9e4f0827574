"""What a referee elsewhere says of a run reaches neither the terminal nor a report as a command."""

from __future__ import annotations

import copy

import pytest

from referee.view import show
from referee.view.face.building import run_view
from referee.view.face.pages import report
from referee.view.operating import ended, logged, runs_table
from tests.support import tiny

EVIL = "\x1b]0;mine\x07[bold]<script>alert(1)</script> | `x`\n# head"


@pytest.fixture
def result(undisturbed):
    found = copy.deepcopy(undisturbed[1].result)
    found.update(reason=EVIL, truth=None, run="folder", peak_memory_bytes=0)
    found["lost"] = {"silent": 2, "declined": {"policy": 3}}
    return found


def test_the_report_holds_it_as_text(result):
    page = report([run_view(tiny(), result, [])])
    assert "<script>" not in page
    assert "\x1b" not in page
    assert "\n# head" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "2 kept silent" in page
    assert "3 declined: policy 3" in page


def test_the_terminal_shows_it_as_text(result, capsys):
    show.result(result, simulated=True)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "[bold]" in printed.replace("\n", "")


def test_progress_is_text(capsys, tmp_path):
    with show.live(tiny(), 1, tmp_path, quiet=False) as said:
        said(EVIL, {})
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    assert "[bold]<script>" in printed.replace("\n", "")


def test_operators_lines_are_lines():
    line = {"run": "a", "scenario": EVIL, "status": "waiting", "waits_for": EVIL}
    assert len(runs_table([line]).splitlines()) == 2
    assert "\x1b" not in runs_table([line])
    assert "\n" not in ended("a", {"status": EVIL, "reason": EVIL})
    assert [text.isprintable() for text in logged([], [EVIL])] == [True]
