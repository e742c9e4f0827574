"""The shipped code of curator and agents passes the audit, end to end; without one of its safeguards it does not.

Each audit claims too much with probability at most 1e-6 (``case.FAILURE``). Seeds are fixed.
``referee audit-privacy --scale 10`` is the same with more runs. In the quick
tier the honest subject of every case has one run of thirty-two, and the
first twin of a case stands beside it where it is caught in few.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.privacy.auditing import Subject
from common.privacy.calibration import sampling_schedule
from deploy.auditing.case import Case
from deploy.auditing.cases import curator_cases
from deploy.auditing.every import cases
from tests.tiers import thinned

CASES = cases()
TWINS = [pytest.param(case, twin, id=f"{case.name}: {name}") for case in CASES for name, twin in case.twins.items()]


HARD = (
    "CnvxAdap",
    "CnvxAdap, a person out of bounds",
    "CnvxAdap, residuals clipped by the public side",
    "NCnvxAdap",
    "sgd",
    "exponential",
    "a repeated request",
    "a whole run",
    "a protocol's transcript",
    "a choice",
    "a head list",
    "votes, on draws",
    "a sparse vector",
    "chosen",
    "a count",
    "a clipped sum",
    "labels of public points",
    "parities by blocks",
    "a selection",
    "weighted shares by score and label",
)
"""Cases whose twins are caught only in runs that take seconds: the slow tier has them."""


@pytest.mark.parametrize("case", thinned(CASES, 18), ids=lambda case: case.name)
def test_in_few_runs_the_claim_is_kept(case: Case) -> None:
    assert case.measure(case.honest, scale=1 / 32).epsilon <= case.epsilon


EASY = [case for case in CASES if case.twins and case.name not in HARD]


@pytest.mark.parametrize("case", thinned(EASY, 12), ids=lambda case: case.name)
def test_the_first_twin_of_a_case_breaks_its_claim(case: Case) -> None:
    assert case.catches(next(iter(case.twins.values())))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_shipped_keeps_its_claim(case: Case) -> None:
    assert case.least <= case.measure(case.honest).epsilon <= case.epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("case", "twin"), TWINS)
def test_without_a_safeguard_the_claim_is_broken(case: Case, twin: Subject) -> None:
    assert case.catches(twin)


def test_the_sampling_bound_is_what_a_draw_costs_and_not_more() -> None:
    case = curator_cases.projection_case()
    assert replace(case, delta=0.9 * case.delta).measure(case.honest).epsilon > 0.0


def test_a_second_task_that_is_charged_as_if_it_were_the_first_is_caught() -> None:
    case = curator_cases.second_task_case()
    fresh = sampling_schedule(curator_cases.N, curator_cases.KAPPA, curator_cases.ETA, 1)[0]
    assert fresh < case.delta
    assert replace(case, delta=fresh).measure(case.honest).epsilon > 0.0
