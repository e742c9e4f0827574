"""The machine and the process: processors where the system cannot tell, and commands of Tandem's own Python."""

from __future__ import annotations

import os
import re
import signal
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


LIMITED = """
import os, signal, sys, time
from common.core import machine
machine.go_on_within(300 << 20, 1.0, lambda why: sys.stderr.write(f"refused: {why}\\n"))

"""
ENDINGS = {
    "print('done')": (0, "done", ""),
    "sys.exit(3)": (3, "", ""),
    "bytearray(1 << 30); time.sleep(60)": (1, "", "refused: took more than 300 MiB of memory"),
    "while True: pass": (1, "", "refused: took more than 1 s"),
    "list(range(10**9))": (1, "", "refused: took more than 300 MiB of memory"),  # holds the interpreter's lock
    "os.kill(os.getpid(), signal.SIGSEGV)": (1, "", "refused: ended the process by SIGSEGV"),
    "os.abort()": (1, "", "refused: ended the process by SIGABRT"),
    "os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)": (128 + signal.SIGTERM, "", ""),
    "raise ValueError('no')": (1, "", "ValueError: no"),
}


@pytest.mark.slow
def test_what_takes_too_much_is_ended_with_one_line_and_all_else_ends_as_it_would() -> None:
    for what, (status, out, err) in ENDINGS.items():
        command = [sys.executable, "-c", LIMITED + what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stdout.strip()) == (status, out), (what, done)
        assert done.stderr.strip().split("\n")[-1] == err, (what, done)
        assert not err.startswith("refused") or "\n" not in done.stderr.strip(), (what, done)
