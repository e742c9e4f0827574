"""The same bits on every processor: compiled for this machine and for the generic target, loops agree."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.common.numerics.targets import WORK

ROOT = Path(__file__).parents[3]
OLD = {
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    # Libraries, too, do as if this were a processor without vectors of AVX and without fused multiply-adds.
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-FMA_Usable,-FMA,-FMA4,-AVX512F",
}


def computed(**target: str) -> dict[str, str]:
    """Return the digests of a process of its own, whose loops are compiled for a target.

    What is compiled is kept where it always is, by target: compiling takes half a minute, the work itself a second.
    """
    kept = {key: value for key, value in os.environ.items() if key not in OLD}
    environment = {**kept, "PYTHONPATH": str(ROOT), **target}
    command = [sys.executable, "-m", "tests.common.numerics.targets"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="its targets are those of x86-64")
def test_every_target_computes_the_same_bits() -> None:
    here, old = computed(), computed(**OLD)
    assert here.keys() == WORK.keys()
    assert here == old
