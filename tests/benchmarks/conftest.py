"""Tests of benchmarks measure what nothing else stands on: all of them are in the slow tier."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder; the hook is called with the tests of all folders."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
