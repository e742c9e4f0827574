"""When an answer leaves: at a point of a public schedule, so that its time says next to nothing about records."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType


@dataclass(frozen=True)
class Schedule:
    """Holds what was begun until the next of the public points unit, 2 unit, 4 unit, ... after its beginning.

    Whoever sees when it leaves learns which point that was: with a unit that is a bound on the time, nothing; else the
    logarithm of the time, rounded up.

    Attributes:
        now, sleep: The clock, in seconds; replaced in tests.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def held(self, unit: float | None) -> AbstractContextManager[None]:
        """Return a block that ends at a point of the schedule, also by an exception; None: without one, at once."""
        return nullcontext() if unit is None else _Held(self, unit)


class _Held(AbstractContextManager[None]):
    def __init__(self, schedule: Schedule, unit: float) -> None:
        self._schedule, self._unit = schedule, unit

    def __enter__(self) -> None:
        self._began = self._schedule.now()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        took, point = self._schedule.now() - self._began, self._unit
        while point < took:
            point *= 2.0
        self._schedule.sleep(max(0.0, point - took))
