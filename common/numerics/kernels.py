"""The one way in which Tandem compiles numeric loops: typed, without the interpreter lock, cached on disk.

The compiler is loaded by the first loop that runs compiled. A party that judges one record never needs it: within
:func:`interpreted` loops run as the plain functions that they are written as.

**What a compiled loop computes is written down in full**, so that processors differ in how long they take and in
nothing else (docs/decisions.md):

- Sums have the order that the source gives them. A long sum is kept in :data:`WIDTH` lanes, one or two vectors of them,
  added up by :func:`total` as a fixed tree; the compiler may not reorder anything (no ``reassoc``).
- ``a * b + c`` is rounded twice. Where one rounding is meant, :func:`fma` says so; on a processor without such an
  instruction it is a slow call with the same result (no ``contract``).
- Elementary functions are those of :mod:`common.numerics.elementary`.

Vectors of eight numbers (:mod:`common.numerics.vectors`) exist in compiled code only. They support ``+``, ``-`` and
``*`` (``&`` of whole numbers), lane by lane, with each other and with scalars, which are rounded to the vector's type
first. Functions with a branch or a loop had better not be called for each item of a longer loop: the compiler then
counts references to the arrays that it hands over.
"""

import ctypes
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, cached_property, partial, update_wrapper
from importlib import import_module
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from common.core.arrays import AnyArray
from common.core.machine import uninterrupted

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger("tandem")
_ALWAYS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""A division by zero is an infinity, not an exception; nobody calls a loop through a pointer."""
_INLINED: dict[str, Any] = {**_ALWAYS, "forceinline": True}
_INTERPRETED: ContextVar[bool] = ContextVar("interpreted", default=False)


@contextmanager
def interpreted() -> Iterator[None]:
    """Run loops as plain Python within: for single records, where loading the compiler costs more than it saves.

    Results are the same, bit for bit. Vectors (:mod:`common.numerics.kernels`) exist in compiled loops only.
    """
    token = _INTERPRETED.set(True)
    try:
        # Compiled integers wrap around and compiled divisions by zero are infinite, both without a word.
        with np.errstate(all="ignore"):
            yield
    finally:
        _INTERPRETED.reset(token)


class Late:
    """What only the compiler can make, made when it is first asked for; within compiled loops it is what it makes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def compiled(self) -> Any:
        """What is made, which loads the compiler."""
        return self._make()

    @property
    def within(self) -> Any:
        """What it is within compiled loops."""
        return self.compiled

    def __call__(self, *args: Any) -> Any:
        """Call a loop that was made; what exists within compiled loops only cannot be called."""
        return self.compiled(*args)


class _Loop(Late, Generic[P, R]):
    """A function that runs compiled, except within :func:`interpreted`."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        super().__init__(partial(_compiled, function, options))
        self.plain = function
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if _INTERPRETED.get():
            return self.plain(*args, **kwargs)
        return cast(R, self.compiled(*args, **kwargs))


class _Inlined(_Loop[P, R]):
    """A function that loops take in: there it has no way in from the interpreter, which takes long to compile.

    Called by itself, as tests do, it is compiled once more, with that way in. This is not kept: the disk cache knows
    signatures alone, and would give either for the other.
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        super().__init__(function, options | {"cache": False})
        self._options = options | {"no_cpython_wrapper": True}

    @cached_property
    def within(self) -> Any:
        return _compiled(self.plain, self._options)


@cache
def _compiler() -> Any:
    """Load the compiler, and teach it what a :class:`Late` object is where a compiled loop names it."""
    with uninterrupted():
        import numba
        from numba.core.registry import cpu_target
        from numba.extending import typeof_impl

        # Loads what the compiler would load at the first loop.
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()

    def type_of(value: Late, use: Any) -> Any:
        made = value.within
        cpu_target.typing_context.refresh()  # an intrinsic was registered just now
        return cpu_target.typing_context.resolve_value_type(made)

    typeof_impl.register(Late)(type_of)
    _keep_freed_memory()
    return numba


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    numba = _compiler()
    if options["cache"] and _has_home():
        try:
            return numba.njit(function, **options)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
    if options["cache"]:
        _warn_not_kept()
    return numba.njit(function, **{**options, "cache": False})


def _keep_freed_memory() -> None:
    """Tell glibc to keep freed memory, up to 256 MiB of it; does nothing elsewhere.

    Samples are gone through in blocks of a few megabytes. By default each block's arrays are given back to the system
    and asked for again, page by page: draws take twice as long then, steps of descent 1.3 times.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD: arrays up to this size, the largest, come from kept memory
        library.mallopt(-1, 1 << 28)  # M_TRIM_THRESHOLD: bytes that may be kept


def _has_home() -> bool:
    """Tell whether Numba keeps compiled loops in a folder of this user's; without one it would take the working folder.

    What it reads from there it executes.
    """
    return "NUMBA_CACHE_DIR" in os.environ or os.path.isabs(os.path.expanduser("~"))


@cache
def _warn_not_kept() -> None:
    log.warning(
        "compiled loops cannot be kept, so that each process compiles them anew, for seconds: neither Tandem's own "
        "folder nor the home directory can be written; set NUMBA_CACHE_DIR to a folder of this user's that can be"
    )


def njit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at first call; the loop runs without the interpreter lock, in IEEE arithmetic (1 / 0 is infinite).

    Both options are written out: what is left out, a function inherits from the caller that is compiled first.
    """
    return _Loop(function, {"fastmath": False, "forceinline": False, **_ALWAYS})


def njit_inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Do the same, inlined into whatever loop calls it; small functions, and loops over what a caller knows.

    What the interpreter calls itself is to be an :func:`njit`: of an inlined function, no way in from there is kept.
    """
    return _Inlined(function, {"fastmath": False, **_INLINED})


def njit_exact(function: Callable[P, R]) -> Callable[P, R]:
    """Do the same with sums in the order that suits the processor: only where every order has the same result.

    That is so where all partial sums are whole numbers that the type holds exactly, and where what is rounded decides
    nothing. Everything else has a fixed order (:mod:`common.numerics.vectors`).
    """
    return _Loop(function, {"fastmath": {"reassoc"}, **_INLINED})


WIDTH = 8  # lanes of every vector


def _made(name: str) -> Any:
    return getattr(import_module(f"{__package__}.vectors"), name)


prefetch = cast(Callable[[AnyArray, Any], None], Late(partial(_made, "prefetch")))
"""Within compiled loops: ask memory for the cache line of item ``place`` of a C-contiguous array, and go on.

A hint without effect on any value; a place outside the array is harmless.
"""
prefetch_near = cast(Callable[[AnyArray, Any], None], Late(partial(_made, "prefetch_near")))
"""The same, into the second-level cache only: for what is needed later than the first level would keep it."""
bits_of = cast(Callable[[Any], Any], Late(partial(_made, "bits_of")))
"""Within compiled loops: the bits of a float32, as an int32."""
word_of = cast(Callable[[Any], Any], Late(partial(_made, "word_of")))  # the same of a float64, as an int64
double_of = cast(Callable[[Any], Any], Late(partial(_made, "double_of")))  # the float64 that has these bits
fma = cast(Callable[[Any, Any, Any], Any], Late(partial(_made, "fma")))
"""Within compiled loops: a * b + c, rounded once; of vectors, or of scalars, which then have the type of ``a``."""
nearest = cast(Callable[[Any], Any], Late(partial(_made, "nearest")))
"""Within compiled loops: the nearest whole number, the even one of two."""
magnitude = cast(Callable[[Any], Any], Late(partial(_made, "magnitude")))  # within compiled loops: the absolute value
least = cast(Callable[[Any, Any], Any], Late(partial(_made, "least")))
"""Within compiled loops: the lesser of two numbers, or of vectors' by lanes; the second if one is no number."""
greatest = cast(Callable[[Any, Any], Any], Late(partial(_made, "greatest")))  # the same, the greater
load = cast(Callable[[Any, Any], Any], Late(partial(_made, "load")))
"""Within compiled loops: items ``place``, ..., ``place + 7`` of a C-contiguous array, flattened, as a vector."""
load_some = cast(Callable[[Any, Any, Any], Any], Late(partial(_made, "load_some")))
"""The same of the first ``count`` (1..8) only, with zeros behind; no memory beyond them is touched."""
store = cast(Callable[[Any, Any, Any], None], Late(partial(_made, "store")))
"""Within compiled loops: write a vector to items ``place``, ..., ``place + 7`` of a C-contiguous array of its type."""
total = cast(Callable[[Any], Any], Late(partial(_made, "total")))
"""Within compiled loops: the sum of a vector's numbers: lanes 0 + 4, 1 + 5, ..., then halves of these, and so on."""
singles = cast(Callable[[Any], Any], Late(partial(_made, "singles")))
"""Within compiled loops: a vector as one of float32; or a number, rounded to float32, in every lane."""
doubles = cast(Callable[[Any], Any], Late(partial(_made, "doubles")))  # the same in float64
alike = cast(Callable[[Any, Any], Any], Late(partial(_made, "alike")))
"""``alike(value, array)``: the same in the type of an array of floating-point numbers."""
dot = cast(Callable[[Any, Any], Any], Late(partial(_made, "dot")))
"""Within compiled loops: <a, b> of two C-contiguous float64 vectors of one length."""
