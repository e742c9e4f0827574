"""Run what documents print as a reader would: in a fresh copy of the project, in a shell, the commands in ``PATH``."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.documents.reading import ROOT, tokens

_CACHES = (".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage*")
_LEFT_BEHIND = (".git", ".venv", "build", "*-state", "*.egg-info", *_CACHES)


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit status, and what it printed on both channels."""

    status: int
    output: str

    @property
    def words(self) -> str:
        """Return the output as one line, without what a table is drawn with."""
        return " ".join(tokens(self.output))


@dataclass
class Clone:
    """A copy of the project with an installed environment, in which commands run.

    Attributes:
        environment: What commands find in their environment; an ``export`` changes it.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, seconds: float) -> Done:
        """Run a command to its end, and with it all that it started."""
        if command.startswith("export "):
            names = [word.partition("=")[0] for word in shlex.split(command)[1:]]
            values = "".join(f' "${name}"' for name in names)
            done = self.run(f"set -e; {command}; printf '%s\\n'{values}", seconds)
            self.environment |= dict(zip(names, done.output.splitlines(), strict=True))
            return Done(done.status, "")
        with self._started(command) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                pytest.fail(f"{command}: no end after {seconds:.0f} s")
        return Done(process.returncode, output)

    @contextmanager
    def background(self, command: str, typed: str = "") -> Iterator[Path]:
        """Start a command that goes on by itself, and end it at last; yield the file of its output."""
        if typed:
            on_a_terminal = f"script --quiet --return --flush --command {shlex.quote(command)} /dev/null"
            command = f"(echo {shlex.quote(typed)}; sleep 600) | {on_a_terminal}"
        said = self.folder / f"said-{len(list(self.folder.glob('said-*')))}"
        with said.open("w") as out, self._started(f"{command}\nwait", out.fileno()):
            yield said

    def newest_run(self) -> str:
        return str(max((self.folder / "runs").iterdir(), key=lambda run: run.stat().st_mtime).relative_to(self.folder))

    @contextmanager
    def _started(self, command: str, output: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=_plain() | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                    process.wait(10)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
            if process.stdout is not None:
                process.stdout.close()
            process.wait()


def _plain() -> dict[str, str]:
    """Return this environment as a reader has it: what runs is not traced for the coverage of these tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "COVERAGE_", "PYTEST_"))}


def wait_for(said: Path, text: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while text not in said.read_text():
        if time.monotonic() > end:
            pytest.fail(f"no {text!r} after {seconds:.0f} s: {said.read_text()}")
        time.sleep(0.1)


def clone(folder: Path) -> Clone:
    """Copy the project, and give the copy the environment of these tests as its own, installed.

    Compiled kernels travel along: they are the same as long as their sources have the same times.
    """
    patterns = shutil.ignore_patterns(*_LEFT_BEHIND)

    def left_behind(place: str, names: list[str]) -> set[str]:
        # Runs lie in the project's root; a room of the referee has the same name.
        return patterns(place, names) | ({"runs"} if Path(place) == ROOT else set())

    shutil.copytree(ROOT, folder, ignore=left_behind, symlinks=True)
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        if (Path(sys.prefix) / name).exists():
            (folder / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    for stamp in re.findall(r"^(\.venv/\S+):", (folder / "Makefile").read_text(), re.MULTILINE):
        (folder / stamp).touch()  # make finds it newer than what it is made from
    path = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return Clone(folder, {"PATH": path, "PYTHONPATH": str(folder), "COLUMNS": "200", "PYTHONWARNINGS": "default"})
