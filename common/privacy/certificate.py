"""Certificates: what a guarantee rests on, as a JSON value that other code can recheck.

A certificate names the events, the accountant, and the numbers at which it found the bound; together they are enough to
work the bound out again without a search. ``referee/audit/certificates.py`` does, with none of the accountants' code.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from common.core.values import Value
from common.privacy.accountants.base import Accountant, Plan

NEIGHBOURS = "one record replaced, n public"


class Counted(Value):
    """An event, in its JSON form, and how often it happens."""

    event: dict[str, Any]
    count: int = Field(ge=1)


class Certificate(Value):
    """That all events together, however adaptively they are chosen within them, are (epsilon, delta)-DP.

    Attributes
    ----------
    neighbours
        The relation that the guarantee is about.
    events
        What was planned, or what happened.
    accountant
        Name of the accountant that found the bound.
    numbers
        Where it found it: ``order`` (rdp); ``pad`` and ``rate`` (comparison); ``width``, ``tilt``, ``points``,
        ``beyond`` (pld: the grid, the transform, and what of delta was added for everything outside of it); none for
        the others.
    epsilon, delta
        What is claimed for exact mechanisms; the budget's delta also pays for :mod:`common.privacy.sampling_error`.
    """

    kind: Literal["privacy-certificate"] = "privacy-certificate"
    neighbours: str = NEIGHBOURS
    events: tuple[Counted, ...]
    accountant: str
    numbers: dict[str, float]
    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)


def certificate_of(name: str, accountant: Accountant, plan: Plan, epsilon: float, delta: float) -> Certificate:
    """Return the certificate of a plan that the accountant shows to be (epsilon, delta)-DP."""
    events = tuple(Counted(event=event.wire(), count=count) for event, count in plan)
    return Certificate(
        events=events, accountant=name, numbers=accountant.numbers(plan, delta), epsilon=epsilon, delta=delta
    )
