"""The machine and the process: processors where the system cannot tell, and commands of Tandem's own Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from common.core.machine import processors, python_environment, python_module

ROOT = Path(__file__).parents[3]
PACKAGES = ("common", "curator", "deploy", "issuer", "local_agent", "referee", "tandem", "benchmarks")


def test_processors_are_counted_in_one_place() -> None:
    asked = re.compile(r"sched_getaffinity\(0\)\)|cpu_count\(")
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if re.search(asked, path.read_text("utf-8"))
    }
    assert found <= {"common/core/machine.py", "benchmarks/floors.py", "benchmarks/frequencies.py"}  # two pin one


def test_processors_are_counted_where_the_system_cannot_tell_which_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 8}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert processors() == 3

    def refused(process: int) -> set[int]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_getaffinity", refused)
    assert processors() == 7
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processors() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors() == 1


def test_a_module_of_ours_runs_without_what_lies_in_the_working_directory(tmp_path: Path) -> None:
    """Named as ours, as the standard library's, or as a library's; started again by itself, too."""
    for name in ("common", "deploy", "random", "yaml", "token", "numpy", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the working directory was executed')\n")
    command = [*python_module("referee.cli"), "plan", "ball"]
    for more in ({}, {"PYTHONPATH": str(ROOT)}, {"PYTHONPATH": ""}):
        with pytest.MonkeyPatch.context() as patched:
            patched.delenv("PYTHONPATH", raising=False)
            for name, value in more.items():
                patched.setenv(name, value)
            environment = python_environment()
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_checkout_that_is_not_installed_is_found() -> None:
    """Its packages beside it, and nothing that says where it is but that the parent was started in it."""
    code = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]; "
        "from common.core import machine; "
        "print(machine.python_environment()['PYTHONPATH'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().split(os.pathsep)[-1] == str(ROOT)
