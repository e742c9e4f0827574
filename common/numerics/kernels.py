"""The one way in which Tandem compiles numeric loops: typed, without the interpreter lock, cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from common.core.arrays import AnyArray
from common.numerics.allocation import keep_freed_memory

P = ParamSpec("P")
R = TypeVar("R")

keep_freed_memory()


_ALWAYS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
"""A division by zero is an infinity, not an exception: loops without a way out are what processors are good at."""
_INLINED: dict[str, Any] = {**_ALWAYS, "forceinline": True}


def njit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at first call; the loop runs without the interpreter lock, in IEEE arithmetic (1 / 0 is infinite).

    It says so itself: what is not said, a function inherits from the caller that happens to be compiled first.
    """
    return cast(Callable[P, R], numba.njit(function, fastmath=False, forceinline=False, **_ALWAYS))


def njit_fused(function: Callable[P, R]) -> Callable[P, R]:
    """Do the same, inlined, with a * b + c in one rounding: the same result on one kind of processor."""
    return cast(Callable[P, R], numba.njit(function, fastmath={"contract"}, **_INLINED))


def njit_reordered(function: Callable[P, R]) -> Callable[P, R]:
    """Do the same with sums, too, in the order that suits the processor: for long sums of well-conditioned terms.

    The order is fixed when the loop is compiled, so one kind of processor always gives the same result.
    """
    return cast(Callable[P, R], numba.njit(function, fastmath={"contract", "reassoc"}, **_INLINED))


def _prefetched(level: int) -> Any:
    """Return an intrinsic that asks memory for an item, to be brought to the first or to the second level."""

    def ask(typingctx: Any, array: Any, place: Any) -> Any:
        if not (isinstance(array, types.Array) and array.layout == "C" and isinstance(place, types.Integer)):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            tools: Any = cgutils
            data = tools.create_struct_proxy(array)(context, builder, arguments[0]).data
            item = builder.gep(data, [arguments[1]])
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            hint = tools.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0i8"
            )
            read, locality, of_data = word(0), word(4 - level), word(1)
            builder.call(hint, [builder.bitcast(item, byte), read, locality, of_data])
            return context.get_dummy_value()

        return types.void(array, place), generate

    return intrinsic(ask)


prefetch = cast(Callable[[AnyArray, Any], None], _prefetched(1))
"""Within compiled loops: ask memory for the cache line of item ``place`` of a C-contiguous array, and go on.

A hint without effect on any value; a place outside the array is harmless.
"""
prefetch_near = cast(Callable[[AnyArray, Any], None], _prefetched(2))
"""The same, into the second-level cache only: for what is needed later than the first level would keep it."""


def _reinterpreted(wanted: Any, given: Any) -> Any:
    """Return an intrinsic that reads the bits of a ``given`` number as a ``wanted`` one."""

    def convert(typingctx: Any, number: Any) -> Any:
        if number != given:
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(wanted))

        return wanted(given), generate

    return intrinsic(convert)


bits_of = cast(Callable[[Any], Any], _reinterpreted(types.int32, types.float32))
"""Within compiled loops: the bits of a float32, as an int32."""
single_of = cast(Callable[[Any], Any], _reinterpreted(types.float32, types.int32))
"""Within compiled loops: the float32 that has these bits."""
