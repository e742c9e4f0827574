"""The search by straight lines: what it returns holds, and is as near as it was told."""

from __future__ import annotations

import math
from collections.abc import Callable

from common.numerics.bisection import crossing
from tests.tiers import for_each

SHAPES: list[tuple[str, Callable[[float], float], float]] = [
    ("straight", lambda x: x - 3.0, 3.0),
    ("steep", lambda x: math.expm1(20.0 * (x - 3.0)), 3.0),
    ("flat", lambda x: (x - 3.0) ** 3, 3.0),
    ("a step", lambda x: -1.0 if x <= math.pi else 1e6, math.pi),
]


@for_each(("name", "excess", "root"), SHAPES, ids=[shape[0] for shape in SHAPES])
def test_it_ends_just_below_the_root(name: str, excess: Callable[[float], float], root: float) -> None:
    asked: list[float] = []

    def counted(x: float) -> float:
        asked.append(x)
        return excess(x)

    found = crossing(2.0, 4.0, counted, 1e-8)
    assert found in asked
    assert root * (1.0 - 2e-8) <= found <= root
    assert len(asked) < {"straight": 12, "steep": 60}.get(name, 100)


def test_it_works_downwards_as_well() -> None:
    assert 3.0 <= crossing(5.0, 1.0, lambda x: 3.0 - x, 1e-9) <= 3.0 * (1.0 + 1e-8)
