"""Work that is prepared ahead, in order, by every core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from common.core.machine import processors

T = TypeVar("T")
_FEW = 8
"""Up to so many items are not worth waking other threads for."""


def prefetch(prepare: Callable[[int], T], count: int) -> Iterator[T]:
    """Yield ``prepare(0), ..., prepare(count - 1)``, each prepared by a thread while the caller uses earlier ones.

    The caller's own thread prepares, too, where it would have to wait: with the pool's threads, one fewer than there
    are cores for this process, no core is idle, whichever side is slower. On a single core, or where there are only a
    few items, there is no pool, and what was prepared is used while it is in the cache. At most two items a core are
    held, and as ``prepare`` gets its number alone, what is yielded does not depend on who was quick.

    Parameters
    ----------
    prepare
        Safe to call from several threads at once; spends its time in compiled loops that let others run.
    count
        How many items.
    """
    threads = processors() - 1
    if threads == 0 or count <= _FEW:
        yield from map(prepare, range(count))
        return
    pool = ThreadPoolExecutor(threads, "ahead")
    pending: deque[tuple[int, Future[T]]] = deque()
    try:
        for number in range(count):
            while len(pending) <= threads + 1 and number + len(pending) < count:
                pending.append((number + len(pending), pool.submit(prepare, number + len(pending))))
            while not pending[0][1].done() and _help(prepare, pending):
                pass
            yield pending.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _help(prepare: Callable[[int], T], pending: deque[tuple[int, Future[T]]]) -> bool:
    """Prepare the first item that no thread has begun; return False if there is none."""
    for place, (number, future) in enumerate(pending):
        if future.cancel():
            done: Future[T] = Future()
            pending[place] = number, done
            done.set_result(prepare(number))
            return True
    return False
