"""A session of Python or of a notebook goes on: after a first fit that was interrupted, and in a forked pool."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

import tandem
from common.data.loading import load
from common.data.tables import record_of
from common.models.onnx_export import onnx_inputs
from common.scenario.loading import load as load_scenario

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


def run(folder: Path, code: str) -> str:
    (folder / "session.py").write_text(code, "utf-8")
    command = [sys.executable, str(folder / "session.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.slow
def test_a_first_fit_may_be_interrupted_at_any_import(tmp_path: Path) -> None:
    assert run(tmp_path, PEOPLE + INTERRUPTED) == "fitted True True"


@pytest.mark.slow
def test_a_forked_pool_fits_plans_warns_and_refuses_as_its_parent_does(tmp_path: Path) -> None:
    """The parent has used the threads of Polars, which its forks lack; and a second fork of such a one, too."""
    again = "fit(2)\nchecked()\n"
    assert run(tmp_path, PEOPLE + POOL + again) == "the same"


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
    assert run(tmp_path, PEOPLE + before) == "True"


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
    refused = run(tmp_path, PEOPLE + own)
    assert refused.startswith("this process was forked off one in which Polars had begun its threads")
    assert refused.endswith("start it by spawn or forkserver instead of fork")


def executed(client: BlockingKernelClient, code: str) -> str:
    """Run a cell; return what it prints, or the name of the error that ends it."""
    words: list[str] = []

    def note(message: dict[str, dict[str, str]]) -> None:
        words.append(message["content"].get("text", "") + message["content"].get("ename", ""))

    client.execute_interactive(code, output_hook=note, timeout=600)
    return "".join(words).strip()


@pytest.mark.slow
def test_in_a_notebook(tmp_path: Path) -> None:
    """The stop button in a first fit, the same cell again, then a forked pool."""
    manager, client = start_new_kernel(cwd=str(tmp_path))
    try:
        assert executed(client, PEOPLE + POOL) == ""
        for module in ("polars.series", "curator.learners.sgd", "numba.core.types"):
            stop = f"""
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)  # as the kernel is sent one
sys.meta_path.insert(0, Stop())
fit(0)
"""
            assert executed(client, stop) == "KeyboardInterrupt", module
        identity = client.execute("print('begun', flush=True)\nwhile True: fit(0)")
        while True:
            message = client.get_iopub_msg(timeout=600)
            if message["parent_header"].get("msg_id") == identity and message["msg_type"] == "stream":
                break
        manager.interrupt_kernel()
        assert client.get_shell_msg(timeout=600)["content"]["ename"] == "KeyboardInterrupt"
        assert executed(client, "print(len(fit(0)))") == "2"
        assert executed(client, "checked()") == "the same"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


EXAMPLE = Path(__file__).parents[2] / "examples" / "own_data"
SMALL = (
    "curator.n=4000", "curator.rounds=1", "curator.learner.steps=20000", "agents.count=6000", "agents.batch=1000",
    "baselines=[]",
)  # fmt: skip


def by_onnx(model, data, folder):
    """Return the labels that ONNX Runtime gives for rows, and the margins where there are some."""
    from onnxruntime import InferenceSession

    session = InferenceSession(str(tandem.export(model, folder / "model.onnx")))
    found = session.run(None, onnx_inputs(model, data))
    return found[0], found[1] if len(found) > 1 else None


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
