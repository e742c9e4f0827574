"""What a squared loss is in the units of the number that is predicted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from common.data.tables import Number
from common.scenario.scenario import Scenario
from common.statistics.intervals import certainty


def in_own_units(scenario: Scenario, result: Mapping[str, Any]) -> str:
    """Return the mean squared error of a regression and its root, with interval, in the response's units.

    Empty where no table says what its response is.
    """
    found, table, answer = result["estimate"], scenario.target.table, result["answer"] or {}
    number = table.features[-1] if table is not None else None
    if scenario.agents.loss != "squared" or not found or not isinstance(number, Number):
        return ""
    if answer.get("response") != scenario.target.dimension - 1:
        return ""
    width, bound = number.high - number.low, min(1.0, scenario.agents.bound)
    squares = [width * width * bound * found[part] for part in ("value", "low", "high")]
    value, low, high = (f"{square:.4g}" for square in squares)
    roots = [f"{math.sqrt(max(square, 0.0)):.4g}" for square in squares]
    cut = "" if bound == 1.0 else f"; errors of {width * math.sqrt(bound):.4g} and more count alike"
    return (
        f"mean squared error {value}, in {low} to {high}, in the square of the units of {number.column!r}; its root "
        f"{roots[0]}, in {roots[1]} to {roots[2]}, with {certainty(found['confidence'])} confidence; it is clipped to "
        f"{number.low:g} .. {number.high:g}{cut}"
    )
