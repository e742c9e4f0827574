"""Threads that work for as long as their process: one that ends unexpectedly is logged, counted, and started again.

Every long-lived thread of every party is one of these. ``/v1/ready`` names a kind of threads from the moment in which
one of them ended until it has worked again for a while.
"""

import logging
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger("tandem")

PAUSE = 2.0  # seconds before a thread that ended is started again; twice as many each further time in a row
LONGEST = 60.0  # seconds of that pause, at most
SETTLED = 10.0  # seconds for which a thread that was started again works until it counts as well


class Supervised:
    """The threads of one kind in one service; the ``name`` of the kind is public, in readiness and metrics."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0  # how often one of these threads has ended unexpectedly
        self._again: dict[int, float] = {}  # by thread that has failed: when it counts as well

    def start(self, work: Callable[[], None], about: str = "") -> threading.Thread:
        """Begin some work in a thread, which logs name by what it is ``about``: called again until it returns."""
        thread = threading.Thread(target=self._carry, args=(work,), name=f"{self.name} {about}".strip(), daemon=True)
        thread.start()
        return thread

    def check(self) -> str | None:
        """Say that a thread has ended unexpectedly and is not known to be well again; None if none has."""
        now = time.monotonic()
        if any(now < well for well in list(self._again.values())):
            return "this thread has ended unexpectedly, and is started again"
        return None

    def failed(self, error: BaseException, pause: float) -> None:
        """Count and log that a thread, which is the current one, has ended unexpectedly."""
        self.failures += 1
        self._again[threading.get_ident()] = time.monotonic() + pause + SETTLED
        # Only code that holds a curator's records raises what is no Exception: no text of that is kept.
        frames = traceback.extract_tb(error.__traceback__)
        where = type(error).__name__ + (f" in {frames[-1].name}, line {frames[-1].lineno}" if frames else "")
        raised = error if isinstance(error, Exception) else None
        what = "the thread %r has ended unexpectedly (%s); it is started again in %g s"
        log.error(what, threading.current_thread().name, where, pause, exc_info=raised)

    def _carry(self, work: Callable[[], None]) -> None:
        pause, began = 0.0, time.monotonic()
        while True:
            try:
                time.sleep(pause)
                began = time.monotonic()
                work()
                break
            except BaseException as error:  # noqa: BLE001 - SystemExit and its like end a thread as well
                lasted = time.monotonic() - began > LONGEST
                pause = PAUSE if lasted or pause == 0.0 else min(LONGEST, 2 * pause)
                self.failed(error, pause)
        self._again.pop(threading.get_ident(), None)


class Worker(ThreadPoolExecutor):
    """One thread that carries out calls, one after the other, in the order in which they are given.

    What a call raises its caller gets; a ``RuntimeError`` for what is no ``Exception``: it counts as an end of the
    thread, which goes on at once.
    """

    def __init__(self, name: str) -> None:
        def named() -> None:
            threading.current_thread().name = name

        super().__init__(1, initializer=named)
        self.threads = Supervised(name)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have a function called; the thread is started at the first call."""
        return super().submit(self._call, fn, *args, **kwargs)

    def _call(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        try:
            return fn(*args, **kwargs)
        except StopIteration as error:  # which no coroutine may raise
            raise RuntimeError(f"{self.threads.name} raised {error!r}") from None
        except Exception:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like
            self.threads.failed(error, 0.0)
            raise RuntimeError(f"the thread {self.threads.name!r} was ended by {type(error).__name__}") from None
