"""The shipped code of curator and agents passes the audit, end to end; without one of its safeguards it does not.

Each audit claims too much with probability at most 1e-6 (``case.FAILURE``). Seeds are fixed.
``referee audit-privacy --scale 10`` is the same with more runs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.privacy.auditing import Subject
from common.privacy.calibration import sampling_schedule
from deploy.auditing.case import Case
from deploy.auditing.cases import curator_cases
from deploy.auditing.every import cases

pytestmark = pytest.mark.slow

CASES = cases()
TWINS = [pytest.param(case, twin, id=f"{case.name}: {name}") for case in CASES for name, twin in case.twins.items()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_shipped_keeps_its_claim(case: Case) -> None:
    assert case.least <= case.measure(case.honest).epsilon <= case.epsilon


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
