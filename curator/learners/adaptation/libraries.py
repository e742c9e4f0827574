"""One thread for linear algebra: sums in one order on every machine, and no threads that wait by spinning."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to the caller's thread, within this context.

    A product of matrices otherwise depends on the number of cores in its last digits. And what an iteration does is too
    little for several threads.
    """
    context: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return context


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
