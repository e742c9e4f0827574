"""What leaves at a point of a public schedule: the points, with a clock that is turned by hand."""

from __future__ import annotations

import pytest

from common.core.schedule import Schedule
from tests.tiers import for_each


class Clock:
    """A clock that stands still but for what is slept and worked."""

    def __init__(self) -> None:
        self.time = 1000.0

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0.0
        self.time += seconds

    def schedule(self) -> Schedule:
        return Schedule(now=lambda: self.time, sleep=self.sleep)


@for_each(("work", "point"), [(0.0, 0.5), (0.49, 0.5), (0.5, 0.5), (0.51, 1.0), (1.5, 2.0), (70.0, 128.0)])
def test_a_block_ends_at_the_unit_times_a_power_of_two(work: float, point: float) -> None:
    clock = Clock()
    with clock.schedule().held(0.5):
        clock.time += work
    assert clock.time == 1000.0 + point


def test_an_exception_leaves_at_the_same_time() -> None:
    clock = Clock()

    def failing() -> None:
        with clock.schedule().held(0.5):
            clock.time += 0.1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert clock.time == 1000.5


def test_without_a_unit_nothing_waits() -> None:
    clock = Clock()
    with clock.schedule().held(None):
        clock.time += 0.1
    assert clock.time == pytest.approx(1000.1)
