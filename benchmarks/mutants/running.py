"""One mutant at a time, in a copy of the tree: never in the working tree."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.mutants.reach import Imports
from benchmarks.mutants.targets import FAST, PACKAGES, ROOT

FILES = ("pyproject.toml", "README.md", "Makefile", "docker-compose.yml", "CHANGELOG.md")
FOLDERS = (*PACKAGES, "docs", "examples")
PLUGINS = ("-p", "xdist.plugin", "-p", "pytest_asyncio.plugin")
"""What the configuration of the tests names; other plugins are left out."""
Outcome = Literal["caught", "timeout", "survived"]


class Verdict(NamedTuple):
    """What the tests said of a mutant.

    Attributes:
        by: The first test that failed; "" if none did.
    """

    outcome: Outcome
    by: str
    seconds: float


class Trees:
    """Copies of the working tree as it is now, with the loops that are compiled already.

    Compiled loops are kept beside the sources, one folder for each copy, so none leaks from one mutant to another;
    and since a loop holds the numbers and loops of other modules that it uses, a mutant's copy begins without the loops
    of the modules that import the mutated one.
    """

    def __init__(self, folder: Path, imports: Imports) -> None:
        self._folder = folder
        self._imports = imports
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False
        self.base = folder / "base"
        self.base.mkdir()
        for name in FOLDERS:
            if (ROOT / name).exists():
                shutil.copytree(
                    ROOT / name, self.base / name, ignore=shutil.ignore_patterns("*.jsonl", "*.png", "*.svg")
                )
        for name in FILES:
            if (ROOT / name).exists():
                shutil.copy2(ROOT / name, self.base / name)

    @contextmanager
    def mutated(self, path: Path, source: str) -> Iterator[Path]:
        """Yield a copy in which the file at ``path`` (in the working tree) has this source."""
        tree = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            shutil.copytree(self.base, tree, dirs_exist_ok=True)
            (tree / path.relative_to(ROOT)).write_text(source)
            compiled = "njit" in source
            for importer, distance in self._imports.importers(path).items():
                place = tree / importer.relative_to(ROOT)
                for stale in place.parent.glob(f"__pycache__/{place.stem}.*") if compiled or distance < 2 else ():
                    if stale.suffix in (".nbi", ".nbc") or importer == path:
                        stale.unlink()
            yield tree
        finally:
            shutil.rmtree(tree, ignore_errors=True)

    def test(self, tree: Path, tests: Sequence[Path], limit: float) -> Verdict:
        """Run test files of a copy in this order, up to the first failure; more than ``limit`` seconds are one.

        Raises:
            KeyboardInterrupt: If all was stopped meanwhile.
            RuntimeError: If pytest could not be used.
        """
        chosen = [str(test.relative_to(ROOT)) for test in tests]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", *PLUGINS, "-rfE", *FAST, *chosen]
        began = time.monotonic()
        with self._started(command, tree) as process:
            try:
                output = process.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                return Verdict("timeout", "", time.monotonic() - began)
            finally:
                _end(process)
        if self._stopped:
            raise KeyboardInterrupt
        seconds = time.monotonic() - began
        if process.returncode == 0:
            return Verdict("survived", "", seconds)
        if process.returncode == 5:
            raise RuntimeError(f"no fast tests in {', '.join(chosen)}")
        if process.returncode in (3, 4) and "while loading conftest" not in output:  # nothing was tested
            raise RuntimeError(f"pytest could not be used: {output.strip().splitlines()[-1]}")
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        return Verdict("caught", failed[1] if failed else f"exit status {process.returncode}", seconds)

    @contextmanager
    def _started(self, command: list[str], tree: Path) -> Iterator[subprocess.Popen[str]]:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {"PYTHONPATH": str(tree), "TMPDIR": str(tree.parent)}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what others bring along takes half of the time to start
        environment.pop("NUMBA_CACHE_DIR", None)
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command, cwd=tree, env=environment, start_new_session=True, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._processes.add(process)
        try:
            yield process
        finally:
            with self._lock:
                self._processes.discard(process)

    def stop(self) -> None:
        """End what runs, and let nothing begin."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
