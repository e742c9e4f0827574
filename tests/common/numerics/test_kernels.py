"""How loops are compiled: a function rounds as its own decorator says, whoever calls it first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.numerics.kernels import njit, njit_inlined

CODE = """
import json
import numpy as np
from common.numerics.kernels import njit, njit_exact
from common.numerics.lanes import fma

@njit
def plain(a, b, c):
    return a * b + c

@njit_exact
def caller(a, b, c):
    return plain(a, b, c)

@njit
def fused(a, b, c):
    return fma(a, b, c)

# a a = 1 + 2^-11 + 2^-24, of which single precision has no room for the last part.
a, c = np.float32(1.0 + 2.0**-12), np.float32(-(1.0 + 2.0**-11))
print(json.dumps([float(function(a, a, c)) for function in (caller, plain, fused)]))
"""


@pytest.mark.slow
def test_a_function_does_not_take_over_the_arithmetic_of_its_first_caller(tmp_path: Path) -> None:
    """In a process of its own, where nothing is compiled yet."""
    script = tmp_path / "loops.py"
    script.write_text(CODE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [0.0, 0.0, 2.0**-24]


@njit_inlined
def _halved(x: float) -> float:
    return x / 2.0


@njit
def _quartered(x: float) -> float:
    return _halved(_halved(x))


def test_an_inlined_function_is_compiled_without_a_way_in_and_can_be_called_all_the_same() -> None:
    """What loops take in has no wrapper; a call from the interpreter must never meet that one, whichever came first."""
    assert (_quartered(12.0), _halved(3.0), _quartered(1.0)) == (3.0, 1.5, 0.25)
    assert _halved.within.targetoptions["no_cpython_wrapper"]  # type: ignore[attr-defined]
    assert "no_cpython_wrapper" not in _halved.compiled.targetoptions  # type: ignore[attr-defined]
