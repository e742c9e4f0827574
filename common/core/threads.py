"""Threads that work as long as their process: one that ends unexpectedly is logged, counted, and restarted.

Every long-lived thread of every party is one of these. ``/v1/ready`` names a kind of threads from the time when one of
them ended until it has worked again for a while.
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

PAUSE = 2.0  # seconds before a thread that ended is restarted; doubled each further time in a row
LONGEST = 60.0  # the longest such pause in seconds
SETTLED = 10.0  # seconds for which a restarted thread must work before it counts as healthy


class Supervised:
    """The threads of one kind in one service; the ``name`` of the kind is public, in readiness and metrics."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0  # how often one of these threads has ended unexpectedly
        self._again: dict[int, float] = {}  # for each thread that has failed: when it counts as healthy again

    def start(self, work: Callable[[], None], label: str = "") -> threading.Thread:
        """Start ``work`` in a thread, restarted until it returns; ``label`` is part of the thread's name in logs."""
        thread = threading.Thread(target=self._carry, args=(work,), name=f"{self.name} {label}".strip(), daemon=True)
        thread.start()
        return thread

    def check(self) -> str | None:
        """Return a message if a thread has ended unexpectedly and does not yet count as healthy; else None."""
        now = time.monotonic()
        if any(now < well for well in list(self._again.values())):
            return "this thread has ended unexpectedly, and is started again"
        return None

    def failed(self, error: BaseException, pause: float) -> None:
        """Count and log that the current thread has ended unexpectedly."""
        self.failures += 1
        self._again[threading.get_ident()] = time.monotonic() + pause + SETTLED
        # Code with a curator's records raises a BaseException that is no Exception: its text is not logged.
        frames = traceback.extract_tb(error.__traceback__)
        place = type(error).__name__ + (f" in {frames[-1].name}, line {frames[-1].lineno}" if frames else "")
        raised = error if isinstance(error, Exception) else None
        what = "the thread %r has ended unexpectedly (%s); it is started again in %g s"
        log.error(what, threading.current_thread().name, place, pause, exc_info=raised)

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
    """One thread that carries out calls one after the other, in the order in which they are submitted.

    The caller gets the exception of its call, or a ``RuntimeError`` for a ``BaseException`` that is no ``Exception``:
    this counts as an end of the thread, which continues at once.
    """

    def __init__(self, name: str) -> None:
        def named() -> None:
            threading.current_thread().name = name

        super().__init__(1, initializer=named)
        self.threads = Supervised(name)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call of a function; the thread is started at the first call."""
        return super().submit(self._call, fn, *args, **kwargs)

    def _call(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        try:
            return fn(*args, **kwargs)
        except StopIteration as error:  # a coroutine must not raise it
            raise RuntimeError(f"{self.threads.name} raised {error!r}") from None
        except Exception:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like
            self.threads.failed(error, 0.0)
            raise RuntimeError(f"the thread {self.threads.name!r} was ended by {type(error).__name__}") from None
