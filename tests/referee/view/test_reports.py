"""Reports of run folders: self-contained, reproducible, equal to result.json; clear errors for other folders."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from common.core.errors import AuditFailed, BadData, NotFound, TandemError
from referee.audit.audit import audit
from referee.cli import app
from referee.view.pages import report, view_of
from tests.referee.audit.signing import Bodies, resign
from tests.support import TINY

EVIL = '<script>alert("x")</script>\x1b[31m'


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reports") / "run"
    sets = [part for override in (*TINY, "baselines=[]") for part in ("--set", override)]
    done = CliRunner().invoke(app, ["run", "ball", "--seed", "3", "--output", str(folder), *sets])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy", ignore=shutil.ignore_patterns("state")))


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def altered(folder: Path, **changes) -> None:
    (folder / "result.json").write_text(json.dumps({**result_of(folder), **changes}))


@pytest.mark.slow
def test_rendering_a_finished_folder_again_changes_nothing(finished):
    first = (finished / "report.html").read_bytes()
    done = CliRunner().invoke(app, ["report", str(finished)])
    assert done.exit_code == 0, done.output
    assert (finished / "report.html").read_bytes() == first


def test_a_folder_without_rounds_shows_the_same_page_from_its_transcript(finished, copied):
    """A referee of an earlier version signed none."""

    def forget(bodies: Bodies) -> Bodies:
        del bodies[-1][1]["result"]["rounds"]
        return bodies

    old = result_of(copied)
    del old["rounds"]
    (copied / "result.json").write_text(json.dumps(old))
    with pytest.raises(AuditFailed, match="rounds differs"):
        view_of(copied)
    resign(finished, copied, forget)
    assert report([view_of(copied)]) == report([view_of(finished)])


def test_the_numbers_on_the_page_are_those_of_the_result(finished):
    page, result = report([view_of(finished)]), result_of(finished)
    assert result["rounds"]
    for numbers in result["rounds"]:
        assert f'<td class="number">{numbers["asked"]:,.0f}</td>' in page
        assert f"{numbers['low']:.4f}" in page
        assert f"{numbers['high']:.4f}" in page
    assert f"{result['agents']['asked']:,} of {result['agents']['enrolled']:,}" in page
    assert f"{result['truth']['loss_on_target']:.4f}" in page
    assert result["status"] in page


def test_a_page_asks_for_nothing_from_outside_and_runs_no_script(finished):
    page = report([view_of(finished)])
    assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)", page)
    assert "<script" not in page
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_several_runs_are_compared(finished, tmp_path):
    page = tmp_path / "two.html"
    done = CliRunner().invoke(app, ["report", str(finished), str(finished), "--output", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert 'href="#run-2"' in text
    assert 'id="run-2"' in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert text.count("How to verify it") == 2


def test_hostile_text_is_text(copied):
    altered(copied, reason=EVIL, run=EVIL)
    page = report([view_of(copied)])
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page


def test_private_state_is_not_read(copied):
    """The copy has no state folder, and its page is that of the whole folder."""
    assert not (copied / "state").exists()
    assert view_of(copied).rounds


def test_rounds_that_the_transcript_does_not_lead_to_are_found(copied):
    assert [dict(numbers) for numbers in audit(copied).rounds] == result_of(copied)["rounds"]
    rounds = result_of(copied)["rounds"]
    altered(copied, rounds=[{**rounds[0], "value": rounds[0]["value"] / 2}, *rounds[1:]])
    with pytest.raises(AuditFailed, match="rounds differs from the signed"):
        audit(copied)
    altered(copied, rounds=[*rounds, rounds[-1]])
    with pytest.raises(AuditFailed, match="rounds differs from the signed"):
        audit(copied)
    altered(copied, rounds=rounds[:1])
    with pytest.raises(AuditFailed, match="rounds differs from the signed"):
        audit(copied)


def _half_written(folder: Path) -> None:
    (folder / "result.json").unlink()


def _cut(folder: Path) -> None:
    (folder / "result.json").write_bytes((folder / "result.json").read_bytes()[:99])


def _a_list(folder: Path) -> None:
    (folder / "result.json").write_text("[]")


def _newer(folder: Path) -> None:
    with (folder / "scenario.yaml").open("a") as file:
        file.write("quantum: true\n")


def _no_rounds(folder: Path) -> None:
    altered(folder, rounds=3)


def _bad_round(folder: Path) -> None:
    altered(folder, rounds=[{"round": 1.0}])


@pytest.mark.parametrize(
    ("break_it", "error", "words"),
    [
        (_half_written, NotFound, "has not ended: result.json is not written yet"),
        (_cut, BadData, "result.json is not JSON"),
        (_a_list, BadData, "must hold a mapping, found a list"),
        (_newer, BadData, "does not fit this version of Tandem: .*quantum.*newer"),
        (_no_rounds, BadData, "rounds must be a list"),
        (_bad_round, BadData, "cannot be read"),
        (shutil.rmtree, NotFound, "there is no run folder"),
    ],
)
def test_what_is_no_finished_run_is_refused_in_a_line(copied, break_it, error, words):
    break_it(copied)
    with pytest.raises(error, match=words) as caught:
        view_of(copied)
    assert isinstance(caught.value, TandemError)
    assert "\n" not in caught.value.detail


def test_the_command_says_it_in_a_line(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 1
    assert "is not a run folder: scenario.yaml cannot be read" in done.output
    assert "Traceback" not in done.output
