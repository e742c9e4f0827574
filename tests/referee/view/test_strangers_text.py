"""What a referee elsewhere says of a run reaches neither the terminal nor a report as a command."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest
import yaml

from common.core.terminal import deliver
from referee.service.app import referee_app
from referee.service.client import CuratorClient
from referee.service.runner import Runner
from referee.view import show
from referee.view.listing import ended, logged, runs_table
from referee.view.pages import report
from referee.view.run_view import run_view
from tests.common.net.test_hostile_peers import hostile, whole
from tests.support import TOKEN, Bench, served, tiny

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


@pytest.mark.slow
def test_a_curator_s_refusal_is_text_to_the_referee_s_operator(tmp_path, monkeypatch):
    """Its reason passes two services, a result and a report: no escape code of it arrives, and no line is forged."""
    problem = {"type": "urn:tandem:problem:refused", "title": EVIL, "detail": EVIL * 40, "spent": EVIL}
    refusing = whole(json.dumps(problem).encode(), status="403 Forbidden")
    monkeypatch.setenv("TANDEM_OPERATOR_TOKEN", TOKEN)
    with ExitStack() as opened:
        url = opened.enter_context(hostile(refusing))
        bench = opened.enter_context(Bench(tmp_path / "bench"))
        bench.referee.allow("operator", TOKEN)
        bench.referee._curator = opened.enter_context(closing(CuratorClient(url, patience=1.0)))
        runner = Runner(bench.referee)
        runner.start()
        opened.callback(runner.stop)
        address = opened.enter_context(served(referee_app(bench.referee, runner)))
        (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(bench.chosen.wire()))
        run = ["run", str(tmp_path / "tiny.yaml"), "--deployment", address, "--output"]
        for more in ([], ["--json"]):
            folder = tmp_path / f"run{len(more)}"
            ended = shown(*run, str(folder), *more)
            assert ended.returncode == 1, ended.stderr
            assert ended.stderr.splitlines()[-1].startswith("refused: ")
            for text in (ended.stdout, ended.stderr, (folder / "report.html").read_text("utf-8")):
                assert "\x1b" not in text
                assert "\n# head" not in text
            assert "<script>alert" not in (folder / "report.html").read_text("utf-8")
            if more:
                assert "# head" in json.loads(ended.stdout)["reason"]
        for words in (["runs", "--url", address], ["audit", str(folder)]):
            text = shown(*words)
            assert "\x1b" not in text.stdout + text.stderr
            assert "\n# head" not in text.stdout + text.stderr


def shown(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the referee in a process of its own."""
    program = [sys.executable, "-c", "from referee.cli import main; main()", *words]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=300)


def test_a_document_on_a_terminal_is_visible_characters(monkeypatch, capsys):
    deliver("a,b\n" + EVIL.replace("\n", " "))
    assert "\x1b" in capsys.readouterr().out, "a program reads it byte for byte"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    deliver("a,b\n" + EVIL)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a,b"
    assert all(line.isprintable() for line in lines)
