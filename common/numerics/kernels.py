"""Compilation of all numeric loops in Tandem: typed, without the interpreter lock, cached on disk.

The first loop that runs compiled loads the compiler. A party that evaluates one record never needs it: within
:func:`interpreted`, loops run as plain Python functions.

**The source determines every operation of a compiled loop**, so that processors differ only in the time they take
(docs/decisions.md):

- Sums have the order of the source. A long sum is accumulated in :data:`WIDTH` lanes, one or two vectors of them, which
  :func:`total` adds as a fixed tree; the compiler may not reorder anything (no ``reassoc``).
- ``a * b + c`` is rounded twice. For a single rounding the source calls :func:`fma`; on a processor without such an
  instruction it is a slow call with the same result (no ``contract``).
- Elementary functions are those of :mod:`common.numerics.elementary`.

Vectors of eight numbers (:mod:`common.numerics.vectors`) exist in compiled code only. They support ``+``, ``-`` and
``*`` (``&`` for integers), lane by lane, with each other and with scalars, which are rounded to the vector's type
first. Do not call functions with a branch or a loop for each item of a longer loop: the compiler would then count
references to the arrays that it passes.
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
"""A division by zero is an infinity, not an exception; no loop is called through a C pointer."""
_INLINED: dict[str, Any] = {**_ALWAYS, "forceinline": True}
_INTERPRETED: ContextVar[bool] = ContextVar("interpreted", default=False)


@contextmanager
def interpreted() -> Iterator[None]:
    """Run loops as plain Python within the block: for single records, loading the compiler costs more than it saves.

    Results are equal in every bit. Vectors (:mod:`common.numerics.vectors`) exist in compiled loops only.
    """
    token = _INTERPRETED.set(True)
    try:
        # As in compiled code, integers wrap around and divisions by zero are infinite without a warning.
        with np.errstate(all="ignore"):
            yield
    finally:
        _INTERPRETED.reset(token)


class LazyObject:
    """An object that only the compiler can create, created at first use; compiled loops see the created object."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def compiled(self) -> Any:
        """The created object; the first access loads the compiler."""
        return self._make()

    @property
    def within(self) -> Any:
        """The object that compiled loops see."""
        return self.compiled

    def __call__(self, *args: Any) -> Any:
        """Call a compiled loop; objects that exist only within compiled loops cannot be called."""
        return self.compiled(*args)


class _Loop(LazyObject, Generic[P, R]):
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
    """A function that is inlined into loops, without an entry point from the interpreter, which takes long to compile.

    If it is called directly, as in tests, it is compiled again with that entry point. This version is not cached: the
    disk cache distinguishes only signatures, and would return either for the other.
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        super().__init__(function, options | {"cache": False})
        self._options = options | {"no_cpython_wrapper": True}

    @cached_property
    def within(self) -> Any:
        return _compiled(self.plain, self._options)


@cache
def _compiler() -> Any:
    """Load the compiler, and register the type of :class:`LazyObject` objects in compiled loops."""
    with uninterrupted():
        import numba
        from numba.core.registry import cpu_target
        from numba.extending import typeof_impl

        # Load now what the compiler would load at the first loop.
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()

    def type_of(value: LazyObject, use: Any) -> Any:
        kernel = value.within
        cpu_target.typing_context.refresh()  # since an intrinsic was just registered
        return cpu_target.typing_context.resolve_value_type(kernel)

    typeof_impl.register(LazyObject)(type_of)
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
    """Configure glibc to keep up to 256 MiB of freed memory; with other libraries, do nothing.

    Samples are processed in blocks of a few megabytes. By default each block's arrays are returned to the system and
    allocated again, page by page; then draws take twice as long, and steps of descent 1.3 times.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD: arrays up to this size, the largest, come from kept memory
        library.mallopt(-1, 1 << 28)  # M_TRIM_THRESHOLD: freed bytes that may be kept


def _has_home() -> bool:
    """Return whether Numba has a cache folder of this user; without one it would use the working folder.

    That would be unsafe, since Numba executes what it reads from its cache.
    """
    return "NUMBA_CACHE_DIR" in os.environ or os.path.isabs(os.path.expanduser("~"))


@cache
def _warn_not_kept() -> None:
    log.warning(
        "compiled loops cannot be kept, so that each process compiles them anew, for seconds: neither Tandem's own "
        "folder nor the home directory can be written; set NUMBA_CACHE_DIR to a folder of this user's that can be"
    )


def njit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop at its first call; it runs without the interpreter lock, in IEEE arithmetic (1 / 0 is infinite).

    Both options are explicit, since a function inherits omitted options from the caller that is compiled first.
    """
    return _Loop(function, {"fastmath": False, "forceinline": False, **_ALWAYS})


def njit_inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Do the same, inlined into each calling loop; for small functions, and for loops whose bounds a caller knows.

    A function that the interpreter calls must be an :func:`njit`: an inlined function has no cached entry point.
    """
    return _Inlined(function, {"fastmath": False, **_INLINED})


def njit_exact(function: Callable[P, R]) -> Callable[P, R]:
    """Do the same with sums in the fastest order for the processor: only if every order has the same result.

    This holds if all partial sums are whole numbers that are exact in the type, and if the result does not depend on
    what is rounded. All other sums have a fixed order (:mod:`common.numerics.vectors`).
    """
    return _Loop(function, {"fastmath": {"reassoc"}, **_INLINED})


WIDTH = 8  # lanes of every vector


def _find(name: str) -> Any:
    return getattr(import_module(f"{__package__}.vectors"), name)


prefetch = cast(Callable[[AnyArray, Any], None], LazyObject(partial(_find, "prefetch")))
"""Within compiled loops: prefetch the cache line of item ``place`` of a C-contiguous array, without waiting.

It has no effect on any value; a place outside the array is harmless.
"""
prefetch_near = cast(Callable[[AnyArray, Any], None], LazyObject(partial(_find, "prefetch_near")))
"""The same, into the second-level cache only: for items that are needed later than the first level would keep them."""
bits_of = cast(Callable[[Any], Any], LazyObject(partial(_find, "bits_of")))
"""Within compiled loops: the bits of a float32, as an int32."""
word_of = cast(Callable[[Any], Any], LazyObject(partial(_find, "word_of")))  # the same of a float64, as an int64
double_of = cast(Callable[[Any], Any], LazyObject(partial(_find, "double_of")))  # the float64 that has these bits
fma = cast(Callable[[Any, Any, Any], Any], LazyObject(partial(_find, "fma")))
"""Within compiled loops: a * b + c, rounded once; for vectors, or for scalars, converted to the type of ``a``."""
nearest = cast(Callable[[Any], Any], LazyObject(partial(_find, "nearest")))
"""Within compiled loops: the nearest whole number; of two, the even one."""
magnitude = cast(
    Callable[[Any], Any], LazyObject(partial(_find, "magnitude"))
)  # within compiled loops: the absolute value
least = cast(Callable[[Any, Any], Any], LazyObject(partial(_find, "least")))
"""Within compiled loops: the lesser of two numbers, or of two vectors by lanes; the second one if one is NaN."""
greatest = cast(Callable[[Any, Any], Any], LazyObject(partial(_find, "greatest")))  # the same, the greater
load = cast(Callable[[Any, Any], Any], LazyObject(partial(_find, "load")))
"""Within compiled loops: items ``place``, ..., ``place + 7`` of a C-contiguous array, flattened, as a vector."""
load_some = cast(Callable[[Any, Any, Any], Any], LazyObject(partial(_find, "load_some")))
"""The same for the first ``count`` (1..8) only, followed by zeros; no memory beyond them is read."""
store = cast(Callable[[Any, Any, Any], None], LazyObject(partial(_find, "store")))
"""Within compiled loops: write a vector to items ``place``, ..., ``place + 7`` of a C-contiguous array of its type."""
total = cast(Callable[[Any], Any], LazyObject(partial(_find, "total")))
"""Within compiled loops: the sum of a vector's lanes: 0 + 4, 1 + 5, ..., then the halves of these, and so on."""
singles = cast(Callable[[Any], Any], LazyObject(partial(_find, "singles")))
"""Within compiled loops: a vector as one of float32; or a number, rounded to float32, in every lane."""
doubles = cast(Callable[[Any], Any], LazyObject(partial(_find, "doubles")))  # the same in float64
alike = cast(Callable[[Any, Any], Any], LazyObject(partial(_find, "alike")))
"""``alike(value, array)``: the same in the type of ``array``, which has floating-point numbers."""
dot = cast(Callable[[Any, Any], Any], LazyObject(partial(_find, "dot")))
"""Within compiled loops: <a, b> of two C-contiguous float64 vectors of one length."""
