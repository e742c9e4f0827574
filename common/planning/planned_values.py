"""One number of a plan, with its formula and its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common.core.errors import BadInput, BudgetExceeded
from common.core.values import PLAN, Value

PAPER = "Kohen & Sheffet, "
CORRECTIONS = "docs/corrections.md, "


class PlannedValue(Value):
    """One number of a plan.

    Attributes
    ----------
    value
        What the run uses: the scenario's own number, or the rule's.
    rule
        What the formula asks for; None where it does not apply.
    formula, source
        The formula in ASCII, and where it is proven.
    """

    value: float
    rule: float | None
    formula: str
    source: str


def follow(given: Any, rule: Callable[[], float], formula: str, source: str) -> PlannedValue:
    """Return the rule's number where the scenario leaves it at ``plan``, else the given one beside the rule's."""
    if given == PLAN:
        return fixed(rule(), formula, source)
    try:
        return PlannedValue(value=given, rule=rule(), formula=f"given; {formula}", source=source)
    except (BadInput, BudgetExceeded):
        return PlannedValue(value=given, rule=None, formula=f"given; {formula} does not apply", source=source)


def fixed(value: float, formula: str, source: str) -> PlannedValue:
    """Return a number that nobody can give, only follow."""
    return PlannedValue(value=value, rule=value, formula=formula, source=source)
