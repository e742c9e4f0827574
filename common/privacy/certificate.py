"""Certificates: what a guarantee rests on, as a JSON value that other code can recheck.

A certificate names the events, the accountant, the numbers at which it found the bound, and what delta pays for noise
that is drawn nearly as it is priced. Together they are enough to work the bound out again without a search.
``referee/audit/certificates.py`` does, with none of the accountants' code.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from common.core.values import Value
from common.privacy.accountants.base import Accountant, Plan
from common.privacy.rounding import up
from common.privacy.sampling_error import delta_left

NEIGHBOURS = "one record replaced, n public"


class Counted(Value):
    """An event, in its JSON form, and how often it happens."""

    event: dict[str, Any]
    count: int = Field(ge=1)


class Certificate(Value):
    """That all events together, however adaptively they are chosen within them, are (epsilon, delta)-DP.

    Attributes:
        neighbours: The relation that the guarantee is about.
        events: What was planned, or what happened.
        accountant: Name of the accountant that found the bound.
        numbers: Where it found it: ``order`` (rdp); ``pad`` and ``rate`` (comparison); ``width``, ``tilt``, ``points``,
            ``beyond`` (pld: the grid, the transform, and what of delta was added for everything outside of it);
            ``width`` (game); none for the others.
        distance: Bound on the total variation between all that is drawn and what is priced
            (:mod:`common.privacy.sampling_error`). The accountant was given delta - (1 + e^epsilon) distance.
        epsilon, delta: What is claimed, for what is really drawn.
    """

    kind: Literal["privacy-certificate"] = "privacy-certificate"
    neighbours: str = NEIGHBOURS
    events: tuple[Counted, ...]
    accountant: str
    numbers: dict[str, float]
    distance: float = Field(ge=0)
    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)


def certificate_of(
    name: str, accountant: Accountant, plan: Plan, epsilon: float, delta: float, error: Fraction = Fraction(0)
) -> Certificate:
    """Return the certificate of a plan.

    Args:
        name, accountant: It shows that the plan costs epsilon at most at
            :func:`common.privacy.sampling_error.delta_left`.
        error: What the plan pays for; nothing is left of delta if it is more than delta.
    """
    events = tuple(Counted(event=event.wire(), count=count) for event, count in plan)
    numbers = accountant.numbers(plan, max(delta_left(delta, epsilon, error), 0.0))
    distance = up(float(error)) if error else 0.0
    return Certificate(events=events, accountant=name, numbers=numbers, distance=distance, epsilon=epsilon, delta=delta)
