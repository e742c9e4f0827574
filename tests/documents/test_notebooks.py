"""The notebooks run from their first cell to their last, and show what they are stored with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

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
    """Return what each output of a cell is."""
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
