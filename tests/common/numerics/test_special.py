"""Special functions are SciPy's, and come without what nobody uses; who uses it after all finds it whole."""

from __future__ import annotations

import subprocess
import sys

from scipy import special as scipys

from common.numerics import special
from tests.tiers import for_each

LOADED = "import sys; print('numpy.f2py.crackfortran' in sys.modules)"


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_they_are_scipys() -> None:
    assert all(getattr(special, name) is getattr(scipys, name) for name in special.__all__)


def test_a_compiler_of_fortran_does_not_come_with_them() -> None:
    assert said(f"import scipy.special; {LOADED}") == "True"  # else this module is for nothing
    assert said(f"import common.numerics.special; {LOADED}") == "False"


@for_each("use", ["import numpy.f2py as f", "from numpy import f2py as f", "import numpy; f = numpy.f2py"])
def test_who_uses_it_finds_it_whole(use: str) -> None:
    assert said(f"import common.numerics.special; {use}; print(f.get_include()); {LOADED}").endswith("src\nTrue")


def test_it_stays_where_it_is_loaded_already() -> None:
    code = "import numpy.f2py as before; import common.numerics.special, numpy; print(numpy.f2py is before)"
    assert said(code) == "True"
