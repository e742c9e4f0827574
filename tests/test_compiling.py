"""Workers that need the same loop at the same moment compile it once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOOP = """
import numba

@numba.njit(cache=True)
def doubled(x):
    return x + x
"""
WORKER = """
import os, sys, time
from pathlib import Path
from tests.compiling import share
from numba.core.typed_passes import NopythonTypeInference

infer = NopythonTypeInference.run_pass

def slowly(self, state):
    if sys.argv[2] == "shared":
        time.sleep(1)  # the other one comes meanwhile, and waits
    else:
        folder = Path(sys.argv[1])
        folder.mkdir(exist_ok=True)
        (folder / str(os.getpid())).touch()
        while len(list(folder.iterdir())) < 2:  # the other one compiles, too
            time.sleep(0.01)
    return infer(self, state)

NopythonTypeInference.run_pass = slowly
if sys.argv[2] == "shared":
    share(Path(sys.argv[1]))
from loop import doubled
print("ready", flush=True)
sys.stdin.readline()
assert doubled(21) == 42
print(sum(doubled.stats.cache_misses.values()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "compiled"), [("shared", 1), ("apart", 2)])
def test_what_one_compiles_the_other_reads(tmp_path: Path, how: str, compiled: int) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path / "locks"), how],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    assert sum(int(worker.communicate()[0]) for worker in workers) == compiled
