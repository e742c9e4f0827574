"""The Python of the documents runs as it is printed, on values for the names that it does not define.

Names in docstrings exist, notebooks show what they are stored with, and the documents become a site without a warning.
"""

import ast
import json
import math
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import polars
import pytest

import tandem
from common.local.mechanisms.mechanism import MECHANISMS
from common.numerics.randomness import RandomSource
from curator.mechanisms.sums import noisy_sum
from tests.documents.reading import ROOT, Block, blocks, pages
from tests.referee.view.test_reports import CALIBRATED, folder_of
from tests.tiers import for_each

Names = dict[str, Any]


def _tables(folder: Path) -> Names:
    runpy.run_path(str(ROOT / "examples" / "own_data" / "make_people.py"))["main"](folder)
    shutil.copy(ROOT / "examples" / "estimators" / "schema.yaml", folder)
    polars.read_csv(folder / "customers.csv").drop("renews").head(100).write_parquet(folder / "new_customers.parquet")
    return {}


def _a_run(folder: Path) -> Names:
    folder_of(folder / "runs" / "renewals", calibrated=CALIBRATED)
    (folder / "new-customers.csv").write_text("plan,visits,months\npro,12,3\nbasic,0.5,60\n")
    return {}


def _predicted(names: Names) -> None:
    assert names["labels"].tolist() == ["yes"]
    assert names["shares"].shape == (2, 2)
    assert names["model"].columns == ("visits", "months", "plan")


def _a_choice(folder: Path) -> Names:
    return {
        "fit": lambda settings, source: settings["alpha"],
        "score": lambda output, source: -noisy_sum(round(1000 * abs(output - 0.5)), 1000, 1.0, source),
        "source": RandomSource.seeded(1, "documents"),
    }


def _fitted(names: Names) -> None:
    model = names["model"]
    assert model.guarantee_.epsilon <= model.epsilon
    assert 0.0 <= model.estimate_.low <= model.estimate_.high <= 1.0


def _chosen(names: Names) -> None:
    assert 0.0 < names["mu"] < 1.0
    epsilon = names["epsilon_of_selection"](names["mu"], names["law"], 1e-6)
    assert epsilon <= 1.0
    assert math.isclose(epsilon, 1.0, rel_tol=0.01)
    assert names["best"].output == names["best"].settings["alpha"]


def _stable(names: Names) -> None:
    assert names["released"] == "blue"  # at a distance of 40 noise hides it with a probability below 1e-9


def _nothing(folder: Path) -> Names:
    return {}


def _a_mechanism(names: Names) -> None:
    MECHANISMS._entries.pop("two-coins")  # what a page registers is there for its own test only
    for mechanism in names["TwoCoins"].example():
        epsilon, delta = mechanism.guarantee
        ratio = Fraction(mechanism.truth) / (1 - Fraction(mechanism.truth))
        assert ratio == 2 ** (mechanism.coins + 1) - 1
        assert delta == 0.0
        assert 0.0 <= epsilon - math.log(ratio) < 1e-14


PREPARED: dict[str, tuple[Callable[[Path], Names], Callable[[Names], None]]] = {
    "CONTRIBUTING.md": (_nothing, _a_mechanism),
    "docs/estimators.md": (_tables, _fitted),
    "docs/models.md": (_a_run, _predicted),
    "docs/hyperparameters.md": (_a_choice, _chosen),
    "docs/model-agnostic.md": (_nothing, _stable),
}
BLOCKS = [block for page in pages() for block in blocks(page) if block.kind == "python"]


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_printed_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {each.document for each in BLOCKS} == set(PREPARED)
    prepare, check = PREPARED[block.document]
    monkeypatch.chdir(tmp_path)
    page = ModuleType("page")  # classes look their annotations up in the module that they are of
    monkeypatch.setitem(sys.modules, page.__name__, page)
    vars(page).update(prepare(tmp_path))
    exec(compile(block.text, str(block), "exec"), vars(page))
    check(vars(page))


PACKAGES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem", "benchmarks")
ROLE = re.compile(r":(?:class|func|meth|data|attr|mod):`~?\.?([\w.]+)`")


@cache
def _sources() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


@cache
def _names() -> set[str]:
    """Return every name that the sources define: modules, classes, functions, variables, parameters, attributes."""
    found = {part for path in _sources() for part in path.relative_to(ROOT).with_suffix("").parts}
    for text in _sources().values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def unresolved(text: str) -> list[str]:
    """Return the names that docstrings refer to, as ``:meth:`Class.method```, and that nothing has.

    Names that begin with a package are followed by ``test_paths`` to their module.
    """
    return [name for name in ROLE.findall(text) if not set(name.split(".")) <= _names()]


@pytest.mark.slow
def test_docstrings_explain_what_is_there() -> None:
    assert {str(path): missing for path, text in _sources().items() if (missing := unresolved(text))} == {}
    text = "See :meth:`~Registry.names`, :meth:`Registry.nowhere_to_be_found`, :data:`NOWHERE_TO_BE_FOUND`."
    assert unresolved(text) == ["Registry.nowhere_to_be_found", "NOWHERE_TO_BE_FOUND"]


FOLDER = ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SEEDED = {"rounds_and_guarantees"}
"""Their people are simulated, so that every execution has the same numbers."""
SECONDS = re.compile(r"seconds\W+[\d.e-]+|'seconds': \{[^}]*\}|'peak_memory_bytes': \d+|<td>[\d.]+</td>|at 0x[0-9a-f]+")


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(cell: Any) -> list[tuple[str, list[str]]]:
    return [(output["output_type"], sorted(output.get("data", {}))) for output in cell["outputs"]]


def words(cell: Any) -> list[str]:
    """Return the texts and drawings of a cell, without times."""
    found = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        for kind in ("text/html", "image/svg+xml", "text/plain"):
            if kind in data:
                found.append(SECONDS.sub("", "".join(data[kind])))
                break
        found.append("".join(output.get("text", "")))
    return found


@for_each("name", ["from_csv", "rounds_and_guarantees"])
def test_stored_outputs_are_there_without_errors_and_places_of_a_machine(name):
    notebook = read(name)
    assert [cell["execution_count"] for cell in code(notebook)] == list(range(1, 1 + len(code(notebook))))
    kinds = {kind for cell in code(notebook) for _, kinds in shown(cell) for kind in kinds}
    assert {"image/svg+xml", "text/html", "text/plain"} <= kinds
    assert all(output["output_type"] != "error" for cell in code(notebook) for output in cell["outputs"])
    assert not re.search(r"/(tmp|home|work|root|Users)/", json.dumps(notebook))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "from_csv" else pytest.mark.thorough) for name in NAMES]
)
def test_a_notebook_runs_and_shows_what_it_is_stored_with(name, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parents[1]), prepend=":")
    stored = read(name)
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    for cell in code(notebook):
        cell["outputs"] = []
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    for before, after in zip(code(stored), code(notebook), strict=True):
        assert shown(after) == shown(before), before["source"]
        if name in SEEDED:
            assert words(after) == words(before), before["source"]


@pytest.mark.slow
def test_the_site_has_every_document_asks_for_nothing_from_outside_and_names_what_there_is(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="sphinx is not installed (extra dev)")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs/site", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "index.html").read_text()
    for document in (ROOT / "docs").rglob("*.md"):
        page = document.relative_to(ROOT / "docs").with_suffix(".html")
        assert (tmp_path / page).is_file()
        if page.parent == Path("."):
            assert f'href="{page}"' in front or page.name == "index.html"
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\bsrc=\"([^\"]+)\"", page.read_text())
        loaded += re.findall(r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"([^\"]+)\"", page.read_text())
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page
    api, commands, http, scenario = (
        (tmp_path / "reference" / f"{name}.html").read_text() for name in ("api", "commands", "http", "scenario")
    )
    assert all(f'id="tandem.{name}"' in api for name in tandem.__all__)
    assert all(f"<h3>{name}<" in commands for name in ("referee run", "curator serve", "local-agent answer"))
    assert "--strict" in commands
    assert all(path in http for path in ("PUT /v1/reports/", "PUT /v1/runs/{run}/operations/", "GET /v1/heads/"))
    assert "chi_squared" in scenario
