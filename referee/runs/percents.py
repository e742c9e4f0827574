"""Numbers about people as they are printed: shares in per cent, and the ends of intervals rounded outward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from common.data.tables import Number
from common.local.losses import Costs
from common.scenario.scenario import Scenario
from common.statistics.intervals import VAGUE, certainty

FEW, MANY = 0.01, 0.1
"""Intervals narrower than ``FEW`` have two decimals, those wider than ``MANY`` none."""
_DIGITS = 4  # decimals of numbers that are no shares of people; from 1 on, this many digits


class Unit(NamedTuple):
    """The unit in which losses are printed.

    Attributes:
        scale: The printed value of a loss of 1; None: losses are shares of people, printed in per cent.
        suffix: The text after a number.
    """

    scale: float | None = None
    suffix: str = ""


PER_CENT, AS_IT_IS = Unit(), Unit(1.0)


def of_costs(costs: Costs) -> Unit:
    """Return the unit for mistakes that have costs: the cost of a hundred people."""
    return Unit(100.0 * costs.heaviest, " a hundred people")


def share(value: float, *, up: bool | None = None, places: int = 1) -> str:
    """Return a share in per cent; ``up`` rounds up if True, down if False, and to the nearest if None."""
    return f"{_rounded(100.0 * value, up, places)}%"


def _rounded(value: float, up: bool | None, places: int) -> str:
    scaled = value * 10**places
    # Floating-point errors of a decimal such as 0.16 must not round it outward.
    near = round(scaled)
    if up is not None and abs(scaled - near) > 1e-9 * max(1.0, abs(scaled)):
        near = math.ceil(scaled) if up else math.floor(scaled)
    return f"{near / 10**places:.10g}"


def _plain_number(value: float, up: bool | None) -> str:
    return _rounded(value, up, max(0, _DIGITS - len(f"{math.floor(abs(value))}".lstrip("0"))))


def four_digits(value: float, up: bool | None) -> str:
    """Return a non-negative number in four digits; ``up`` as for :func:`share`."""
    places = min(_DIGITS - 1 - math.floor(math.log10(value)), 300) if value > 0.0 else 0
    return f"{float(_rounded(value, up, places)):.4g}"


def signed(value: float, *, up: bool) -> str:
    """Return a difference of shares in per cent, with its sign, rounded as ``up`` says."""
    text = share(value, up=up)
    return text if text.startswith("-") else f"+{text}"


def places_of(low: float, high: float) -> int:
    """Return how many decimals of a per cent an interval's width justifies."""
    return 2 if high - low < FEW else 0 if high - low > MANY else 1


def exact(value: float, unit: Unit = PER_CENT) -> str:
    """Return a loss that is no estimate, such as a level or a true one, without its unit."""
    return share(value, places=2) if unit.scale is None else _plain_number(unit.scale * value, None)


def ends(low: float, high: float, unit: Unit = PER_CENT) -> str:
    """Return an interval in words, its ends rounded outward, without its unit."""
    if unit.scale is not None:
        return f"{_plain_number(unit.scale * low, False)} to {_plain_number(unit.scale * high, True)}"
    places = places_of(low, high)
    return f"{share(low, up=False, places=places)} to {share(high, up=True, places=places)}"


def estimate(interval: Mapping[str, float], unit: Unit = PER_CENT) -> str:
    """Return an estimate (value, low, high) in words."""
    low, high = interval["low"], interval["high"]
    if unit.scale is None:
        return f"{share(interval['value'], places=places_of(low, high))} ({ends(low, high)})"
    return f"{_plain_number(unit.scale * interval['value'], None)}{unit.suffix} ({ends(low, high, unit)})"


def estimate_or_vague(interval: Mapping[str, float], unit: Unit = PER_CENT) -> str:
    """Return an estimate in words, without its value where the interval is wider than :data:`VAGUE`."""
    if interval["high"] - interval["low"] > VAGUE:
        between = ends(interval["low"], interval["high"], unit)
        return f"{between}{unit.suffix}: too few agents answered about it to tell"
    return estimate(interval, unit)


def points(difference: float, unit: Unit = PER_CENT, *, up: bool) -> str:
    """Return a difference of two losses, in points where they are shares, rounded as ``up`` says."""
    if unit.scale is not None:
        return f"{_plain_number(unit.scale * difference, up)}{unit.suffix}"
    text = _rounded(100.0 * difference, up, 0 if abs(difference) >= MANY else 1)
    return f"{text} point{'' if text in ('1', '-1') else 's'}"


def rounded_up(count: float) -> str:
    """Return a number of people in two digits, rounded up."""
    unit = 10 ** max(0, math.floor(math.log10(max(count, 1.0))) - 1)
    return f"{math.ceil(count / unit) * unit:,}"


def in_own_units(scenario: Scenario, result: Mapping[str, Any]) -> str:
    """Return the mean squared error of a regression and its root, with intervals, in the response's units.

    Empty where no table describes its response.
    """
    estimate, table, answer = result["estimate"], scenario.target.table, result["answer"] or {}
    number = table.features[-1] if table is not None else None
    if scenario.agents.loss != "squared" or not estimate or not isinstance(number, Number):
        return ""
    if answer.get("response") != scenario.target.dimension - 1:
        return ""
    width, bound = number.high - number.low, min(1.0, scenario.agents.bound)
    squares = [width * width * bound * estimate[part] for part in ("value", "low", "high")]
    value, low, high = map(four_digits, squares, (None, False, True))
    roots = [*map(four_digits, (math.sqrt(max(square, 0.0)) for square in squares), (None, False, True))]
    cut = "" if bound == 1.0 else f"; errors of {width * math.sqrt(bound):.4g} and more count alike"
    return (
        f"mean squared error {value}, in {low} to {high}, in the square of the units of {number.column!r}; its root "
        f"{roots[0]}, in {roots[1]} to {roots[2]}, with {certainty(estimate['confidence'])} confidence; it is clipped "
        f"to {number.low:g} .. {number.high:g}{cut}"
    )
