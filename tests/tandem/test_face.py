"""The public face: what it offers does what the command does, and importing it loads nothing else."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tandem
from common.core.errors import AuditFailed, BadInput, BadScenario, RunFailed
from deploy.deployment import Embedded
from referee.view.pages import view_of
from tandem.estimators.guarantee import Guarantee, Spending
from tandem.runs import Run
from tandem.showing import DrawnEstimate, Promises
from tests.support import leave_folder, tiny
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


def test_a_plan_is_that_of_the_command_and_what_is_refused_leaves_no_folder(tmp_path):
    assert tandem.plan("ball")["tight"]["n"]["value"] == 14_147_418
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


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("shown")
    finished = Embedded(folder / "state").run(tiny(), 1, "run", lambda text, numbers: None)
    place = leave_folder(folder / "run", tiny(), 1, finished)
    return Run(json.loads((place / "result.json").read_text()), place)


def texts(svg: str) -> list[str]:
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")
    ]


def test_a_run_is_shown_as_its_report_shows_it(run):
    shown, view = run._repr_html_(), view_of(run.folder)
    assert view.verdict.title in shown
    for found in run.result["rounds"]:
        assert f"{found['value']:.4f}" in shown
    assert f"{run.result['agents']['asked']:,}" in shown
    for promise in view.promises:
        assert promise.formula in shown
    assert "<html" not in shown
    assert "<style" not in shown
    assert "<script" not in shown


def test_the_drawing_of_a_run_has_its_rounds(run, tmp_path):
    drawn = run.plot()
    described = re.search(r"<desc[^>]*>(.*?)</desc>", drawn._repr_svg_())
    assert described is not None
    assert f"for each of {len(run.result['rounds'])} rounds" in described[1]
    assert drawn.save(tmp_path / "a.svg").read_text() == drawn.svg
    assert drawn.svg == run.plot().svg


def test_an_estimate_is_a_dictionary_that_is_shown(run):
    assert run.estimate == run.result["estimate"]
    assert isinstance(run.estimate, DrawnEstimate)
    found = DrawnEstimate(value=0.25, low=0.2, high=0.3, confidence=0.95)
    assert "0.2500, in 0.2000 to 0.3000, at 95%" in found._repr_html_()
    assert "0.2000 to 0.3000" in texts(found.plot().svg)


def test_guarantees_are_shown_in_words_and_formulas(run):
    assert run.privacy == run.result["privacy"]
    shown = run.privacy._repr_html_()
    for who in ("curator", "agent"):
        promised = run.result["privacy"][who]
        assert f"({promised['epsilon']:g}, {promised['delta']:g})-differential privacy" in shown
        assert f"{promised['epsilon']:.4f}" in texts(run.privacy.plot().svg)
    nothing = {"epsilon": None, "delta": None, "protects": "records", "neighbours": "one row", "covers": "run"}
    with pytest.raises(BadInput, match="nothing is promised"):
        Promises(curator=nothing).plot()
    assert "no guarantee" in Promises(curator=nothing)._repr_html_()


def test_the_guarantee_of_an_estimator_says_what_it_takes_for_public():
    fit = Spending(epsilon=1.0, delta=1e-6, agent_epsilon=2.0, people=100, agents=200)
    found = Guarantee(fits=(fit, fit), simulated=True, assumptions=("the <bounds>",))
    shown = found._repr_html_()
    for words in ("(2, 2e-06)-differential privacy", "(4, 0)-differential privacy", "SIMULATED", "the &lt;bounds&gt;"):
        assert words in shown
    assert {"2.0000", "4.0000"} <= set(texts(found.plot().svg))


def test_a_result_that_differs_is_shown_as_it_is(run, tmp_path):
    """The object's own result is shown, and nothing that a file says beside it."""
    other = json.loads(json.dumps(run.result))
    other["agents"]["asked"] = 123_456
    assert "123,456" in str(Run(other, run.folder)._repr_html_())
    assert Run(run.result, tmp_path / "gone")._repr_html_() is None
