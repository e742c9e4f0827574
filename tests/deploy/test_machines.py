"""Other machines than this one: without what only Linux has, without a home, with anybody's modules beside the run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.core.machine import python_module
from tests.deploy.test_display_errors import SETS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RUN = ["run", "ball", "--seed", "1", *SETS, "--deployment", "processes", "--json", "--output", "run"]

FIT = """
import warnings
import numpy as np, tandem
warnings.simplefilter("ignore")
chance = np.random.default_rng(7)
X = chance.uniform(-1, 1, (600, 2)); y = X[:, 0] > 0
def fit(seed):
    return tandem.TransferClassifier(2, protocol="learn-and-test", random_state=seed).fit(X, y).predict(X).tolist()
"""

BARE = """
import builtins, io, os, resource, select, sys

for place, names in (
    (os, "sched_getaffinity sched_setaffinity fdatasync posix_fadvise memfd_create copy_file_range splice pidfd_open "
         "eventfd setns unshare getrandom posix_fallocate"),
    (select, "epoll"),
    (resource, "prlimit RUSAGE_THREAD"),
):
    for name in names.split():
        if hasattr(place, name):
            delattr(place, name)
sys.modules["uvloop"] = None

def without(function):
    def called(path, *args, **kwargs):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(("/proc", "/sys", "/dev/shm")):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *args, **kwargs)
    return called

builtins.open = io.open = without(io.open)
for name in ("open", "stat", "lstat", "listdir", "scandir", "statvfs", "access", "readlink"):
    setattr(os, name, without(getattr(os, name)))
"""
"""A sitecustomize that takes away what macOS has not."""

HOMELESS = """
import os, pwd
os.environ.pop("HOME", None)
def unknown(number):
    raise KeyError(f"getpwuid(): uid not found: {number}")
pwd.getpwuid = unknown
"""
"""A sitecustomize that makes the user one of whom the system knows nothing: a container's, as a rule."""


def customised(folder: Path, text: str) -> dict[str, str]:
    """Return an environment in which every Python begins with a text."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text, "utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).strip(":")}


def unprivileged() -> list[str]:
    """Return what a command begins with so that permissions hold for it; root passes them over otherwise."""
    if os.geteuid() != 0:
        return []
    prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner"]
    if shutil.which("setpriv") is None or subprocess.run([*prefix, "true"], check=False).returncode != 0:
        pytest.skip("root here may not lay down its privileges")
    return prefix


def run(
    command: list[str], folder: Path | None = None, env: dict[str, str] | None = None, status: int = 0
) -> list[str]:
    """Run a command, which must end so; return the lines that it printed, or those of its complaint."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == status, done.stderr[-3000:]
    return (done.stderr if status else done.stdout).strip().splitlines()


def test_runs_fits_and_forks_without_what_only_linux_has(tmp_path: Path) -> None:
    bare = customised(tmp_path / "bare", BARE)
    code = f"""import json, multiprocessing
from typer.testing import CliRunner
from referee.cli import app
{FIT}
for words in ({[*RUN, "--set", "curator.storage.place=disk"]}, ["audit", "run", "--json"]):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    print(json.dumps(json.loads(done.stdout)))
first = fit(0)
with multiprocessing.get_context("fork").Pool(1) as pool: print(json.dumps(pool.map(fit, [0]) == [first]))
"""
    (tmp_path / "bare.py").write_text(code, "utf-8")
    found, audited, alike = map(json.loads, run([sys.executable, "bare.py"], tmp_path, bare))
    assert (found["status"], audited["verified"], alike) == ("exhausted", True, True)


@pytest.mark.parametrize(
    "path",
    ["", *(pytest.param(path, marks=pytest.mark.thorough) for path in (None, str(ROOT)))],
    ids=["empty", "unset", "checkout"],
)
def test_modules_of_the_working_directory_are_not_executed(tmp_path: Path, path: str | None) -> None:
    """Of our names, of the standard library's and of libraries'; neither by the parties nor by a referee's page."""
    for name in ("common", "curator", "deploy", "random", "yaml", "token", "typing", "numpy", "site", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w').close()\nraise SystemExit(1)\n", "utf-8")
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given |= {} if path is None else {"PYTHONPATH": path}
    done = run([*python_module("referee.cli"), *RUN], tmp_path, given)
    assert json.loads("\n".join(done))["status"] == "exhausted"
    assert not (tmp_path / "executed").exists()


def test_a_module_that_hides_ours_from_python_is_named(tmp_path: Path) -> None:
    """Where Tandem is a checkout, or installed editable; a wheel has the one name tandem."""
    for name in ("common", "deploy"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text("X = 1\n", "utf-8")
        *_, last = run([sys.executable, "-c", "import tandem; tandem.TransferClassifier"], folder, status=1)
        assert last.startswith(f"ImportError: {folder / name}.py has the name of a package")


def test_windows_is_refused_at_once() -> None:
    for asked in ("import tandem; tandem.run", "import common.core.durable"):
        *_, last = run([sys.executable, "-c", f"import sys; sys.platform = 'win32'; {asked}"], status=1)
        assert last.startswith("ImportError: Tandem runs on Linux and macOS: on Windows")


@pytest.mark.thorough
def test_without_a_home_what_simulates_runs_and_what_must_be_kept_is_refused(tmp_path: Path) -> None:
    """No home that the system knows, and one that cannot be written."""
    (tmp_path / "home").mkdir(mode=0o500)
    code = f"""{FIT}print(len(fit(0)))
from common.core.errors import TandemError
try: tandem.TransferClassifier(epsilon=2).fit(X, y)
except TandemError as error: print(type(error).__name__, error)
"""
    (tmp_path / "fit.py").write_text(code, "utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"}
    none = {"PYTHONPATH": customised(tmp_path / "none", HOMELESS)["PYTHONPATH"]}
    homeless = "this user has no home directory for durable state"
    cases = [(none, homeless), ({"HOME": "nowhere"}, homeless)]
    for home in (f"{tmp_path}/home", f"{tmp_path}/fit.py"):
        cases.append(({"HOME": home}, f"the ledger of people {home}/.local/state/tandem/people cannot"))
    for environment, expected in cases:
        command = [*unprivileged(), sys.executable, "fit.py"]
        simulated, refused = run(command, tmp_path, inherited | environment)
        assert simulated == "600"
        assert refused.partition(" ")[2].startswith(expected)
        assert "XDG_STATE_HOME" in refused
    serve = [*unprivileged(), *python_module("curator.cli"), "serve", "sparse", "--port", "0"]
    (line,) = run(serve, env=inherited | none, status=1)
    assert "no home directory" in line


def test_compiled_loops_run_where_none_can_be_kept(tmp_path: Path) -> None:
    """With a warning, once; and never kept in, nor read from, a folder ``~`` of the working directory."""
    code, home, work = tmp_path / "code", tmp_path / "home", tmp_path / "work"
    for folder in (code, home, work):
        folder.mkdir()
    (code / "loops.py").write_text(
        "from common.numerics.kernels import njit\n"
        "@njit\ndef add(x, y): return x + y\n"
        "@njit\ndef double(x): return add(x, x)\n"
        "if __name__ == '__main__': print(double(2), double(1.5))\n",
        "utf-8",
    )
    for folder in (code, home):
        folder.chmod(0o500)
    inherited = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    homeless = customised(tmp_path / "none", HOMELESS)["PYTHONPATH"]
    at_home = {"HOME": str(home)}
    for more in (at_home, {**at_home, "NUMBA_CACHE_DIR": str(home / "kept")}, {"PYTHONPATH": homeless}):
        command = [*unprivileged(), sys.executable, str(code / "loops.py")]
        done = subprocess.run(command, cwd=work, env=inherited | more, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["4", "3.0"], done.stderr
        assert done.stderr.count("compiled loops cannot be kept") == 1
        assert not list(work.iterdir())
