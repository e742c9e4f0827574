"""A plug-in of pytest that writes down the processor time of each test, for ``benchmarks.slowest_tests``."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.slowest_tests import RECORD

_began = pytest.StashKey[float]()


def _processor_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin to count."""
    item.stash[_began] = _processor_seconds()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Write down what the test took, its fixtures included."""
    try:
        yield
    finally:
        with Path(os.environ[RECORD]).open("a", encoding="utf-8") as record:
            record.write(f"{_processor_seconds() - item.stash[_began]:.2f}\t{item.nodeid}\n")
