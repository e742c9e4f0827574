"""Work prepared ahead: in order, bounded, by several threads, and nothing left behind."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from curator.mechanisms.clipped_steps import prefetch
from tests.tiers import for_each


@pytest.fixture(autouse=True, params=[2, 5])
def cores(request, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(request.param)))
    return request.param


@for_each("count", [0, 1, 2, 3, 50])
def test_items_come_in_order_whoever_was_quick(count):
    def prepare(number):
        time.sleep(0.002 * (number % 3))
        return number * number

    assert list(prefetch(prepare, count)) == [number * number for number in range(count)]


def test_few_items_are_held_at_once(cores):
    begun = []
    for used, number in enumerate(prefetch(lambda number: begun.append(number) or number, 200)):
        assert number == used
        assert len(begun) <= used + 2 * cores


def test_a_single_core_prepares_each_item_when_its_turn_comes(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3})
    begun = []
    for used in prefetch(lambda number: begun.append(threading.current_thread()) or number, 5):
        assert begun == [threading.current_thread()] * (used + 1)


def test_the_caller_prepares_too_where_it_would_have_to_wait():
    """Each of the two sides goes on only when the other one has prepared an item, or has begun to."""
    caller, helped, begun = threading.current_thread(), threading.Event(), threading.Event()

    def prepare(number):
        mine, other = (helped, begun) if threading.current_thread() is caller else (begun, helped)
        mine.set()
        assert other.wait(600)
        return number

    assert len(list(prefetch(prepare, 40))) == 40


@for_each("wrong", [0, 7])
def test_an_error_reaches_the_caller_and_no_thread_stays(wrong):
    def prepare(number):
        if number == wrong:
            raise ArithmeticError("spoilt")
        return number

    with pytest.raises(ArithmeticError, match="spoilt"):
        list(prefetch(prepare, 20))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_a_caller_that_stops_early_leaves_no_thread():
    items: Any = prefetch(lambda number: number, 1000)
    assert next(items) == 0
    items.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]
