"""Vectors of eight numbers within compiled loops, and the one rule by which compiled arithmetic is the same everywhere.

The rule: **what a compiled loop computes is written down in full**, so that processors differ in how long they take
and in nothing else.

- Sums have the order that the source gives them. A long sum is kept in :data:`WIDTH` lanes, one or two vectors of them,
  added up by :func:`total` as a fixed tree. The compiler makes one AVX-512 register of a vector of doubles, two of AVX2
  or four of the generic target, and may not reorder anything (no ``reassoc``).
- ``a * b + c`` is rounded twice. Where one rounding is meant, :func:`fma` says so; on a processor without such an
  instruction it is a slow call with the same result (no ``contract``).
- Elementary functions are those of :mod:`common.numerics.elementary`, made of additions, multiplications and divisions.
  Those of libraries differ: vector versions from scalar ones, and both from version to version.

A loop vectorized by the compiler under these rules gives what its scalar form gives, so most loops need no vectors of
this module; sums of floating-point numbers do, and loops whose speed hangs on what the compiler makes of them.

Vectors exist in compiled code only. They support ``+``, ``-`` and ``*`` (``&`` of whole numbers), lane by lane, with
each other and with scalars, which are rounded to the vector's type first. Functions with a branch or a loop had better
not be called for each item of a longer loop: the compiler then counts references to the arrays that it hands over.

The compiler is loaded when a compiled loop first names one of these (:mod:`common.numerics.vectors` makes them).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

from common.numerics.kernels import Late

WIDTH = 8
"""Lanes of every vector."""


def _made(name: str) -> Any:
    return getattr(import_module(f"{__package__}.vectors"), name)


fma = cast(Callable[[Any, Any, Any], Any], Late(partial(_made, "fma")))
"""Within compiled loops: a * b + c, rounded once; of vectors, or of scalars, which then have the type of ``a``."""
nearest = cast(Callable[[Any], Any], Late(partial(_made, "nearest")))
"""Within compiled loops: the nearest whole number, the even one of two."""
magnitude = cast(Callable[[Any], Any], Late(partial(_made, "magnitude")))
"""Within compiled loops: the absolute value."""
least = cast(Callable[[Any, Any], Any], Late(partial(_made, "least")))
"""Within compiled loops: the lesser of two numbers, or of vectors' by lanes; the second if one is no number."""
greatest = cast(Callable[[Any, Any], Any], Late(partial(_made, "greatest")))
"""The same, the greater."""
load = cast(Callable[[Any, Any], Any], Late(partial(_made, "load")))
"""Within compiled loops: items ``place``, ..., ``place + 7`` of a C-contiguous array, flattened, as a vector."""
load_some = cast(Callable[[Any, Any, Any], Any], Late(partial(_made, "load_some")))
"""The same of the first ``count`` (1..8) only, with zeros behind; no memory beyond them is touched."""
store = cast(Callable[[Any, Any, Any], None], Late(partial(_made, "store")))
"""Within compiled loops: write a vector to items ``place``, ..., ``place + 7`` of a C-contiguous array of its type."""
store_some = cast(Callable[[Any, Any, Any, Any], None], Late(partial(_made, "store_some")))
"""``store_some(array, place, count, vector)``: the same, only the first ``count``."""
total = cast(Callable[[Any], Any], Late(partial(_made, "total")))
"""Within compiled loops: the sum of a vector's numbers: lanes 0 + 4, 1 + 5, ..., then halves of these, and so on."""
singles = cast(Callable[[Any], Any], Late(partial(_made, "singles")))
"""Within compiled loops: a vector as one of float32; or a number, rounded to float32, in every lane."""
doubles = cast(Callable[[Any], Any], Late(partial(_made, "doubles")))
"""The same in float64."""
alike = cast(Callable[[Any, Any], Any], Late(partial(_made, "alike")))
"""``alike(value, array)``: the same in the type of an array of floating-point numbers."""
dot = cast(Callable[[Any, Any], Any], Late(partial(_made, "dot")))
"""Within compiled loops: <a, b> of two C-contiguous float64 vectors of one length."""
