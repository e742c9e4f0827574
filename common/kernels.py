"""The one way in which Tandem compiles numeric loops: typed, without the interpreter lock, cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def njit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at first call; the loop runs without the interpreter lock, in IEEE arithmetic (1 / 0 is infinite)."""
    return cast(Callable[P, R], numba.njit(function, nogil=True, cache=True, error_model="numpy"))
