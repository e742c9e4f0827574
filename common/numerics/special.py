"""SciPy's special functions, in four fifths of the time that they take to load.

``scipy.special`` loads all that NumPy has, ``numpy.f2py`` too, a compiler of Fortran: a twentieth of the time in which
a service starts. From here it is loaded when something in it is asked for, which nobody does.
"""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

import numpy as np


def _when_used(name: str) -> None:
    """Let a module of NumPy be loaded when something in it is asked for; nothing changes where it is loaded already."""
    path = f"numpy.{name}"
    spec = find_spec(path) if path not in sys.modules else None
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    sys.modules[path] = module_from_spec(spec)
    setattr(np, name, sys.modules[path])
    spec.loader.exec_module(sys.modules[path])


_when_used("f2py")

from scipy.special import (  # noqa: E402 - after what it would load
    bdtr,
    bdtrc,
    betaincinv,
    betaln,
    erfcx,
    expit,
    gammaincinv,
    gammaln,
    log_ndtr,
    logsumexp,
    ndtr,
    ndtri,
)

__all__ = [
    "bdtr",
    "bdtrc",
    "betaincinv",
    "betaln",
    "erfcx",
    "expit",
    "gammaincinv",
    "gammaln",
    "log_ndtr",
    "logsumexp",
    "ndtr",
    "ndtri",
]
