"""What contract suites share: every example of a registry as a parameter, and numbers that no value may hold."""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from common.core.registry import Registry

ONLY = os.environ.get("TANDEM_ONLY", "")
"""How the registered names begin that contract suites are to try."""


def entries(registry: Registry[Any]) -> list[tuple[str, Any]]:
    """Return the names and classes that contract suites are to try."""
    return [(name, kind) for name, kind in registry.items() if name.startswith(ONLY)]


def examples(registry: Registry[Any], wanted: Callable[[type[Any]], bool] = lambda kind: True) -> list[Any]:
    """Return every example of every registered class, shipped or installed, named ``name-0``, ``name-1``, ..."""
    return [
        pytest.param(example, id=f"{name}-{place}")
        for name, kind in entries(registry)
        if wanted(kind)
        for place, example in enumerate(kind.example())
    ]


def with_a_number_that_is_none(tree: Any) -> Iterator[Any]:
    """Yield copies of a JSON tree in each of which one number is infinite or not a number."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from ({**tree, key: broken} for broken in with_a_number_that_is_none(value))
    elif isinstance(tree, list):
        for place, value in enumerate(tree):
            yield from ([*tree[:place], broken, *tree[place + 1 :]] for broken in with_a_number_that_is_none(value))
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield from (math.nan, math.inf, -math.inf)
