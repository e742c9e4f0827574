"""The Python of the documents runs as it is printed, on values for the names that it does not define."""

from __future__ import annotations

import ast
import json
import math
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars
import pytest

from common.local.mechanisms.mechanism import MECHANISMS
from common.numerics.randomness import RandomSource
from curator.mechanisms.sums import noisy_sum
from tests.documents.reading import ROOT, Block, blocks, defined, pages
from tests.referee.view.test_models_of_runs import folder_of

Names = dict[str, Any]


def _arrays(folder: Path) -> Names:
    """Return volunteers, of whom more have a large first feature, a population, and new people."""
    generator = np.random.default_rng(1)
    people, population = (np.clip(generator.random((n, 3)), 0, 1) for n in (3000, 20_000))
    people[:, 0] = np.maximum(people[:, 0], generator.random(3000))

    def label(features: np.ndarray) -> np.ndarray:
        return np.where(features[:, 0] + features[:, 1] > 1, "yes", "no")

    return {
        "X": people, "y": label(people), "X_all": population, "y_all": label(population),
        "X_new": generator.random((50, 3)),
    }  # fmt: skip


def _tables(folder: Path) -> Names:
    runpy.run_path(str(ROOT / "examples" / "own_data" / "make_people.py"))["main"](folder)
    shutil.copy(ROOT / "examples" / "estimators" / "schema.yaml", folder)
    polars.read_csv(folder / "customers.csv").drop("renews").head(100).write_parquet(folder / "new_customers.parquet")
    return {}


def _a_run(folder: Path) -> Names:
    folder_of(folder / "runs" / "renewals")
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
    "docs/running.md": (_arrays, _fitted),
    "CONTRIBUTING.md": (_nothing, _a_mechanism),
    "docs/estimators.md": (_tables, _fitted),
    "docs/models.md": (_a_run, _predicted),
    "docs/hyperparameters.md": (_a_choice, _chosen),
}
FILES = ROOT / "docs" / "extending.md"
"""Its blocks are the files of a package, which ``tests/plugins`` installs and runs."""
BLOCKS = [block for page in pages() if page != FILES for block in blocks(page) if block.kind == "python"]


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_printed_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, check = PREPARED[block.document]
    monkeypatch.chdir(tmp_path)
    page = ModuleType("page")  # classes look their annotations up in the module that they are of
    monkeypatch.setitem(sys.modules, page.__name__, page)
    vars(page).update(prepare(tmp_path))
    exec(compile(block.text, str(block), "exec"), vars(page))
    check(vars(page))


def test_every_page_with_python_is_prepared_for() -> None:
    assert {block.document for block in BLOCKS} == set(PREPARED)


PACKAGES = ("common", "curator", "issuer", "local_agent", "referee", "deploy", "tandem", "benchmarks")
ROLE = re.compile(r":(?:class|func|meth|data|attr|mod):`~?(\.?)([\w.]+)`")


@cache
def _classes() -> dict[str, tuple[set[str], set[str]]]:
    """Return what each class defines, and the names of its bases; classes of one name are taken together."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                own, bases = found.setdefault(node.name, (set(), set()))
                own |= defined(node.body)
                own |= {
                    each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and _is_self(each.value)
                }
                bases |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    return found


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _held(name: str) -> set[str]:
    own, bases = _classes().get(name, (set(), set()))
    return own.union(*(_held(base) for base in bases - {name}))


def unresolved(text: str) -> Iterator[str]:
    """Yield the names that docstrings refer to, as ``:meth:`Class.method```, and that are not there.

    Names that begin with a package are followed by ``test_paths`` up to their module, and here behind it.
    """
    tree = ast.parse(text)
    here = defined(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            here |= defined(node.body) | _held(node.name)
    for relative, name in ROLE.findall(text):
        before, _, last = name.rpartition(".")
        owner = before.rpartition(".")[2]
        if owner in _classes():
            known = last in _held(owner)
        else:
            known = relative == "." or name in here or name.split(".")[0] in PACKAGES
        if not known:
            yield name


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_explain_what_is_there(package: str) -> None:
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        if names := [*unresolved(path.read_text("utf-8"))]:
            found[path.relative_to(ROOT).as_posix()] = names
    assert found == {}


REFERENCES = '''
class A:
    """See :meth:`b`, :meth:`c`, :meth:`Registry.names`, :meth:`Registry.nothing`, :data:`HERE`, :data:`NOWHERE`."""

    def b(self): ...

HERE = 1
'''


@pytest.mark.slow
def test_a_name_that_is_not_there_is_noticed() -> None:
    assert list(unresolved(REFERENCES)) == ["c", "Registry.nothing", "NOWHERE"]


FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
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


def test_there_are_both():
    assert NAMES == ["from_csv", "rounds_and_guarantees"]


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_there_without_errors_and_places_of_a_machine(name):
    notebook = read(name)
    assert [cell["execution_count"] for cell in code(notebook)] == list(range(1, 1 + len(code(notebook))))
    kinds = {kind for cell in code(notebook) for _, kinds in shown(cell) for kind in kinds}
    assert {"image/svg+xml", "text/html", "text/plain"} <= kinds
    assert all(output["output_type"] != "error" for cell in code(notebook) for output in cell["outputs"])
    assert not re.search(r"/(tmp|home|work|root|Users)/", json.dumps(notebook))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
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
