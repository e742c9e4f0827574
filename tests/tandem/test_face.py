"""The public face: what it offers does what the command does, and importing it loads nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tandem
from common.core.errors import AuditFailed, BadScenario, RunFailed
from tests.tiers import for_each

ROOT = Path(__file__).parents[2]
TINY = (
    "curator.n=1200", "curator.kappa=0.2", "curator.eta=0.2", "curator.rounds=2", "curator.epsilon=60",
    "curator.learner.steps=200", "agents.count=3000", "agents.mechanism.epsilon=2", "agents.batch=400", "baselines=[]",
)  # fmt: skip


@pytest.mark.slow
def test_a_run_is_that_of_the_command_and_can_be_audited(tmp_path):
    told: list[str] = []
    found = tandem.run("ball", *TINY, seed=3, output=tmp_path / "run", on_progress=lambda text, _: told.append(text))
    assert found.status in ("done", "exhausted")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["answer"] == found.hypothesis.wire()
    assert found.estimate is not None
    assert found.estimate["low"] <= found.estimate["value"] <= found.estimate["high"]
    assert found.privacy["curator"]["epsilon"] == 60
    assert told
    assert tandem.audit(found.folder).status == found.status


@pytest.mark.slow
def test_a_changed_transcript_is_noticed(tmp_path):
    found = tandem.run("ball", *TINY, seed=3, output=tmp_path / "run")
    path = found.folder / "transcript.jsonl"
    path.write_text(path.read_text().replace('"answered":', '"answered": 1', 1))
    with pytest.raises(AuditFailed):
        tandem.audit(found.folder)


def test_a_plan_is_that_of_the_command():
    assert tandem.plan("ball")["tight"]["n"]["value"] == 14_147_418


def test_what_is_refused_raises_and_leaves_no_folder(tmp_path):
    with pytest.raises(BadScenario, match="no shipped scenario"):
        tandem.run("bal", output=tmp_path / "run")
    with pytest.raises(BadScenario, match="unknown"):
        tandem.run("ball", "alhpa=0.1", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_without_an_answer_raises(tmp_path):
    """The curator's budget belongs to the first run: a second one of the same people is refused."""
    folder = tandem.run("ball", *TINY, seed=3, output=tmp_path / "run").folder
    claim = json.loads((folder / "claim.json").read_text())
    (folder / "claim.json").write_text(json.dumps({**claim, "run": "another"}))
    key = (folder / "state" / "referee" / "identity.key").read_bytes()
    for party in ("referee", "agents"):
        shutil.rmtree(folder / "state" / party)
    (folder / "state" / "referee").mkdir()
    (folder / "state" / "referee" / "identity.key").write_bytes(key)
    with pytest.raises(RunFailed, match=r"the run was (refused|failed): "):
        tandem.run("ball", *TINY, seed=3, output=folder)


def test_importing_it_loads_nothing_else():
    code = "import sys, tandem; print([m for m in sys.modules if m.split('.')[0] in {'numpy', 'common', 'curator'}])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@for_each("name", tandem.__all__)
def test_every_name_is_there(name):
    assert getattr(tandem, name).__doc__
    assert name in dir(tandem)


def test_readme_examples_and_documents_import_nothing_else():
    """But for the page that adds a file to the project itself."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    for page in pages:
        inner = re.findall(
            r"^\s*(?:from|import) (?:common|curator|referee|deploy|local_agent)\b.*", page.read_text(), re.M
        )
        assert inner == [], page
