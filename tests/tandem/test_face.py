"""The public face: what it offers does what the command does, and importing it loads nothing else."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from typer.testing import CliRunner

import tandem
from common.core.errors import BadInput, BadScenario, RolledBack, RunFailed
from common.data.loading import load
from common.data.tables import record_of
from common.models.onnx_export import onnx_inputs
from common.scenario.loading import load as load_scenario
from deploy.deployment import Embedded
from referee.runs.percents import estimate_or_vague
from referee.view.pages import view_of
from tandem.cli import app
from tandem.estimators.guarantee import Guarantee, Spending
from tandem.runs import DrawnEstimate, Promises, Run
from tests.support import TINY, leave_folder, tiny
from tests.tiers import for_each

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_run_is_that_of_the_command_and_can_be_audited_and_one_without_an_answer_raises(tmp_path):
    """The curator's budget belongs to the first run: a second one of the same people is refused."""
    told: list[str] = []
    ways = {"seed": 3, "output": tmp_path / "run"}
    found = tandem.run("ball", *TINY, "baselines=[]", **ways, on_progress=lambda text, _: told.append(text))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["answer"] == found.hypothesis.wire()
    assert found.estimate["low"] <= found.estimate["value"] <= found.estimate["high"]
    assert found.privacy["curator"]["epsilon"] == 60
    assert told
    assert tandem.audit(found.folder).status == found.status
    claim, state = json.loads((found.folder / "claim.json").read_text()), found.folder / "state"
    (found.folder / "claim.json").write_text(json.dumps({**claim, "run": "another"}))
    key = (state / "referee" / "identity.key").read_bytes()
    for party in ("referee", "agents"):
        shutil.rmtree(state / party)
    (state / "referee").mkdir()
    (state / "referee" / "identity.key").write_bytes(key)
    ended = (found.folder / "result.json").read_bytes()
    with pytest.raises(RolledBack, match="its parties show another history of it now"):
        tandem.run("ball", *TINY, "baselines=[]", **ways)
    assert (found.folder / "result.json").read_bytes() == ended
    (found.folder / "transcript.jsonl").unlink()
    with pytest.raises(RunFailed, match=r"the run was (refused|failed): "):
        tandem.run("ball", *TINY, "baselines=[]", **ways)


def test_a_plan_is_that_of_the_command_and_what_is_refused_leaves_no_folder(tmp_path):
    assert tandem.plan("ball")["tight"]["n"]["value"] == 14_147_418
    with pytest.raises(BadScenario, match="no shipped scenario"):
        tandem.run("bal", output=tmp_path / "run")
    with pytest.raises(BadScenario, match="unknown"):
        tandem.run("ball", "alhpa=0.1", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_its_operator_has_cancelled_raises_as_well(tmp_path, monkeypatch):
    ended = {"status": "cancelled", "reason": "by the operator", "run": str(tmp_path)}
    monkeypatch.setattr("tandem.runs.carry_out", lambda *asked, **options: ended)
    with pytest.raises(RunFailed, match="the run was cancelled: by the operator"):
        tandem.run("ball")


def test_points_that_are_no_text_are_refused_from_a_file_and_from_the_standard_input(tmp_path):
    (tmp_path / "points.csv").write_bytes(b"\xff\n")
    for place in (str(tmp_path / "points.csv"), "-"):
        done = CliRunner().invoke(app, ["ask", place, "--curator-key", "0" * 64], input=b"\xff\n")
        assert (done.exit_code, f"{place} cannot be read as text" in done.stderr) == (1, True), place


def test_what_is_no_point_is_refused_before_the_curator_is_asked(tmp_path):
    key = tandem.consumer_key(tmp_path / "key")
    with tandem.LabelStream("http://127.0.0.1:9", curator_key=key, key=tmp_path / "key") as stream:
        for point in (["x"], [None], 3, [], [float("nan")]):
            with pytest.raises(BadInput, match="point"):
                stream.ask(point)


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
    inner = re.compile(r"^\s*(from|import) (common|curator|referee|deploy|local_agent)\b", re.MULTILINE)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    assert [page for page in pages if inner.search(page.read_text())] == []


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("shown")
    finished = Embedded(folder / "state").run(tiny(), 1, "run", lambda text, numbers: None)
    place = leave_folder(folder / "run", tiny(), 1, finished)
    return Run(json.loads((place / "result.json").read_text()), place)


def texts(svg: str) -> list[str]:
    return ["".join(part.itertext()) for part in ElementTree.fromstring(svg).iter() if part.tag.endswith("text")]


def test_a_run_is_shown_as_its_report_shows_it(run):
    shown, view = run._repr_html_(), view_of(run.folder)
    numbers = [estimate_or_vague(found) for found in run.result["rounds"]]
    formulas = [promise.formula for promise in view.promises]
    for words in (view.verdict.title, view.verdict.text, f"{run.result['agents']['asked']:,}", *numbers, *formulas):
        assert words in shown
    assert not any(tag in shown for tag in ("<html", "<style", "<script"))


def test_the_drawing_of_a_run_has_its_rounds(run, tmp_path):
    drawn = run.plot()
    assert re.search(rf"<desc[^>]*>.*for each of {len(run.result['rounds'])} rounds.*</desc>", drawn._repr_svg_())
    assert drawn.save(tmp_path / "a.svg").read_text() == drawn.svg
    assert drawn.svg == run.plot().svg


def test_an_estimate_is_a_dictionary_that_is_shown(run):
    assert run.estimate == run.result["estimate"]
    assert isinstance(run.estimate, DrawnEstimate)
    found = DrawnEstimate(value=0.25, low=0.2, high=0.3, confidence=0.95)
    assert "25% (20% to 30%), at 95%" in found._repr_html_()
    assert "20% to 30%" in texts(found.plot().svg)


def test_guarantees_are_shown_in_words_and_formulas(run):
    assert run.privacy == run.result["privacy"]
    shown = run.privacy._repr_html_()
    for who in ("curator", "agent"):
        promised = run.result["privacy"][who]
        assert f"({promised['epsilon']:g}, {promised['delta']:g})-differential privacy" in shown
        of = "each person of the curator" if who == "curator" else "each agent"
        assert f"{of} {promised['epsilon']:g}" in run.privacy.plot().svg
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
    assert "each person of the curator 2; each agent 4<" in found.plot().svg


def test_a_result_that_differs_is_shown_as_it_is(run, tmp_path):
    """The object's own result is shown, and nothing that a file says beside it."""
    other = json.loads(json.dumps(run.result))
    other["agents"]["asked"] = 123_456
    assert "123,456" in str(Run(other, run.folder)._repr_html_())
    assert Run(run.result, tmp_path / "gone")._repr_html_() is None


PEOPLE = """
import multiprocessing, signal, sys, threading, time, warnings
import numpy as np, tandem
from common.core.errors import TandemError

warnings.simplefilter("ignore")
chance = np.random.default_rng(7)
X = chance.uniform(-1, 1, (600, 2)); y = X[:, 0] > 0
P = chance.uniform(-1, 1, (600, 2)); q = P[:, 0] > 0

def fit(seed):
    model = tandem.TransferClassifier(epsilon=2, random_state=seed).fit(X, y, population=(P, q))
    return model.hypothesis_.wire(), model.predict(P).tolist()
"""

INTERRUPTED = """
class Stop:
    # An interrupt at every twentieth module that a first fit imports, whoever imports it.
    seen, asked, main = set(), 0, threading.main_thread()
    def find_spec(self, name, path=None, target=None):
        if name not in self.seen and threading.current_thread() is self.main:
            self.seen.add(name)
            if len(self.seen) % 20 == 0:
                Stop.asked += 1
                signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Stop())
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
stopped = 0
for attempt in range(200):
    try:
        fit(0)
        break
    except KeyboardInterrupt:
        stopped += 1
print("fitted", 100 < Stop.asked, 0 < stopped)
"""

POOL = """
def failing(seed):
    try:
        tandem.TransferClassifier(epsilon=-seed, random_state=seed).fit(X, y, population=(P, q))
    except TandemError as error:
        return type(error).__name__, str(error)

def warned(seed):
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        tandem.TransferClassifier(epsilon=2, random_state=seed).fit(30 * X, y, population=(30 * P, q))
    return sorted({str(warning.message) for warning in noted})

def checked():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(fit, [0, 1])
        refused, noted = pool.map(failing, [1]), pool.map(warned, [1])
        plans = pool.map(tandem.plan, ["sparse"])
    assert found == [fit(0), fit(1)]
    assert refused == [failing(1)] and refused[0][0] == "BadFit", refused
    assert noted == [warned(1)], noted
    assert plans == [tandem.plan("sparse")]
    print("the same")
"""


def session(folder: Path, code: str) -> str:
    (folder / "session.py").write_text(code, "utf-8")
    command = [sys.executable, str(folder / "session.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.slow
def test_a_first_fit_may_be_interrupted_at_any_import(tmp_path: Path) -> None:
    assert session(tmp_path, PEOPLE + INTERRUPTED) == "fitted True True"


@pytest.mark.thorough
def test_a_forked_pool_fits_plans_warns_and_refuses_as_its_parent_does(tmp_path: Path) -> None:
    """The parent has used the threads of Polars, which its forks lack; and a second fork of such a one, too."""
    again = "fit(2)\nchecked()\n"
    assert session(tmp_path, PEOPLE + POOL + again) == "the same"


@pytest.mark.slow
def test_a_pool_that_is_forked_before_anything_ran_fits_by_itself(tmp_path: Path) -> None:
    before = """
import common.core.machine as machine
tandem.TransferClassifier
def by_itself(seed):
    machine._in_a_fresh_process = None
    return fit(seed)
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(by_itself, [3]) == [fit(3)])
"""
    assert session(tmp_path, PEOPLE + before) == "True"


@pytest.mark.slow
def test_what_cannot_be_brought_to_a_fresh_process_is_refused_at_once(tmp_path: Path) -> None:
    own = """
class Own(tandem.TransferClassifier):
    pass
def fit_own(seed):
    try:
        Own(epsilon=2, random_state=seed).fit(X, y)
    except TandemError as error:
        return str(error)
fit(0)
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(fit_own, [0])[0])
"""
    refused = session(tmp_path, PEOPLE + own)
    assert refused.startswith("this process was forked off one in which Polars had begun its threads")
    assert refused.endswith("start it by spawn or forkserver instead of fork")


STOPPED_AT = """
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)  # as the kernel is sent one
sys.meta_path.insert(0, Stop())
fit(0)
"""


FORKED = """
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(fit, [0]) == [fit(0)])
"""


def executed(client: BlockingKernelClient, code: str) -> str:
    """Run a cell; return what it prints, or the name of the error that ends it."""
    content: list[dict[str, str]] = []
    client.execute_interactive(code, output_hook=lambda message: content.append(message["content"]), timeout=600)
    return "".join(part.get("text", "") + part.get("ename", "") for part in content).strip()


@pytest.mark.thorough
def test_in_a_notebook(tmp_path: Path) -> None:
    """The stop button in a first fit, the same cell again, then a forked pool."""
    manager, client = start_new_kernel(cwd=str(tmp_path))
    try:
        assert executed(client, PEOPLE) == ""
        for module in ("polars.series", "curator.learners.half_spaces", "numba.core.types"):
            assert executed(client, STOPPED_AT.format(module=module)) == "KeyboardInterrupt", module
        identity = client.execute("print('begun', flush=True)\nwhile True: fit(0)")
        while True:
            message = client.get_iopub_msg(timeout=600)
            if message["parent_header"].get("msg_id") == identity and message["msg_type"] == "stream":
                break
        manager.interrupt_kernel()
        assert client.get_shell_msg(timeout=600)["content"]["ename"] == "KeyboardInterrupt"
        assert executed(client, "print(len(fit(0)))") == "2"
        assert executed(client, FORKED) == "True"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


EXAMPLE = Path(__file__).parents[2] / "examples" / "own_data"
SMALL = (
    "curator.n=4000", "curator.rounds=1", "curator.learner.steps=20000", "curator.learner.noise=1.2",
    "agents.count=6000", "agents.batch=1000", "baselines=[]",
)  # fmt: skip
"""The noise is about what would be planned, which takes seconds."""


def by_onnx(model, data, folder):
    """Return the labels and margins that ONNX Runtime gives for rows."""
    from onnxruntime import InferenceSession

    session = InferenceSession(str(tandem.export(model, folder / "model.onnx")))
    return session.run(None, onnx_inputs(model, data))[:2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tandem.models.DataNote")
def test_a_run_on_ones_own_data_from_its_start_to_its_predictions(tmp_path):
    runpy.run_path(str(EXAMPLE / "make_people.py"))["main"](tmp_path)
    finished = tandem.run(EXAMPLE / "scenario.yaml", f"data={tmp_path}", *SMALL, output=tmp_path / "run")
    tandem.audit(finished.folder)
    assert "\n  visits, a unit " in (finished.folder / "report.html").read_text()
    source = load_scenario(str(EXAMPLE / "scenario.yaml")).target.table
    people = load(tmp_path, source)
    expected = np.where(finished.hypothesis.predict(people.features) > 0, "yes", "no")
    customers = tmp_path / "customers.csv"
    np.testing.assert_array_equal(tandem.predict(finished, customers), expected)
    np.testing.assert_array_equal(tandem.as_sklearn(finished).predict(polars.read_csv(customers)), expected)
    again = tandem.load_model(tandem.export(finished, tmp_path / "model.json"))
    np.testing.assert_array_equal(tandem.predict(again, customers), expected)
    labels, margins = by_onnx(again, customers, tmp_path)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(margins, finished.hypothesis.margins(people.features))
    wrong = np.mean((expected == "yes") != (people.labels > 0))
    assert finished.result["truth"]["loss_on_target"] == pytest.approx(wrong, abs=0.02)  # of all, not of those asked
    for place, row in enumerate(polars.read_csv(customers).head(300).to_dicts()):
        np.testing.assert_array_equal(record_of(row, source).features, people.features[place : place + 1])
