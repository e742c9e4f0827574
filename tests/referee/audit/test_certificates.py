"""Certificates of every accountant pass the independent check; forged ones are refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from common.core.errors import AuditFailed
from common.privacy.accountants.base import ACCOUNTANTS, Plan
from common.privacy.budget import certify, open_budget
from common.privacy.certificate import certificate_of
from common.privacy.events import (
    Event,
    Gaussian,
    NoEvent,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
)
from common.privacy.theorems.stopping import NegativeBinomial, Poisson, geometric
from referee.audit.certificates import recheck

DELTA = 1e-5
SMALL = SubsampledSteps(count=1000, tv_bound=1e-3, ratio=0.25)
LARGE = SubsampledSteps(count=100, tv_bound=0.01, ratio=1.0)
RELEASE = SubsampledRelease(draws=20, tv_bound=1e-4, epsilon=1.0, delta=1e-9)
PURE = SubsampledRelease(draws=20, tv_bound=1e-4, epsilon=1.0)

CASES: list[tuple[str, Plan]] = [
    ("rdp", [(SMALL, 50), (PURE, 3), (Gaussian(mu=0.1), 2)]),
    ("rdp", [(LARGE, 5)]),
    ("comparison", [(SMALL, 300)]),
    ("comparison", [(SMALL, 300), (Gaussian(mu=0.1), 1), (NoEvent(), 2)]),
    ("pld", [(LARGE, 5)]),
    ("pld", [(LARGE, 3), (SMALL, 10), (RELEASE, 2), (Gaussian(count=3, mu=0.1), 1)]),
    ("gdp", [(Gaussian(count=9, mu=0.1), 4)]),
    ("kov", [(RELEASE, 30), (Release(epsilon=0.01), 4)]),
    ("selection", [(PrivateSelection(mu=0.25, law=geometric(10.0)), 1)]),
    ("selection", [(PrivateSelection(mu=0.25, law=Poisson(rate=8.0, most=100)), 1)]),
    ("selection", [(PrivateSelection(mu=0.1, law=NegativeBinomial(eta=0.0, gamma=0.05, most=200)), 1)]),
]
NAMES = [f"{name}-{number}" for number, (name, _) in enumerate(CASES)]


def claim(name: str, plan: Plan) -> dict[str, Any]:
    accountant = ACCOUNTANTS[name]()
    return certificate_of(name, accountant, plan, accountant.epsilon(plan, DELTA), DELTA).wire()


def record(plan: Plan) -> list[dict[str, Any]]:
    return [event.wire() for event, count in plan for _ in range(count)]


@pytest.mark.parametrize(("name", "plan"), CASES, ids=NAMES)
def test_a_true_certificate_passes_and_one_that_claims_less_is_refused(name: str, plan: Plan) -> None:
    certificate = claim(name, plan)
    epsilon = certificate["epsilon"]
    found = recheck(certificate, record(plan), epsilon, DELTA)
    assert 0.5 * DELTA < found <= 1.01 * DELTA
    for share in (0.9, 0.97):
        with pytest.raises(AuditFailed, match="recomputed it is"):
            recheck({**certificate, "epsilon": share * epsilon}, record(plan), epsilon, DELTA)
    with pytest.raises(AuditFailed, match="recomputed it is"):
        recheck({**certificate, "delta": 0.8 * DELTA}, record(plan), epsilon, DELTA)
    with pytest.raises(AuditFailed, match="not"):
        recheck(certificate, record(plan), 0.99 * epsilon, DELTA)
    with pytest.raises(AuditFailed, match="not"):
        recheck(certificate, record(plan), epsilon, 0.9 * DELTA)


@pytest.mark.parametrize("change", [{"ratio": 0.9}, {"count": 90}, {"tv_bound": 0.009}])
@pytest.mark.parametrize("name", ["rdp", "pld"])
def test_a_certificate_of_other_events_is_refused_in_its_words_and_in_its_numbers(
    name: str, change: dict[str, float]
) -> None:
    milder: Event = LARGE.model_copy(update=change)
    forged = claim(name, [(milder, 5)])
    with pytest.raises(AuditFailed, match="other events"):
        recheck(forged, record([(LARGE, 5)]), 100.0, DELTA)
    renamed = {**forged, "events": claim(name, [(LARGE, 5)])["events"]}
    with pytest.raises(AuditFailed, match=r"recomputed it is|does not reach"):
        recheck(renamed, record([(LARGE, 5)]), 100.0, DELTA)


@pytest.mark.parametrize("numbers", [{"pad": 1e-3}, {"pad": 1e-6, "rate": 1e-9}, {"rate": 1.0}])
def test_no_choice_of_numbers_makes_a_claim_true(numbers: dict[str, float]) -> None:
    certificate = claim("comparison", [(SMALL, 300)])
    forged = {**certificate, "numbers": {**certificate["numbers"], **numbers}}
    with pytest.raises(AuditFailed):
        recheck(forged, record([(SMALL, 300)]), 100.0, DELTA)


def test_a_budget_has_the_certificate_of_its_plan_and_an_audit_one_of_what_happened() -> None:
    planned = [SMALL] * 40
    budget = open_budget(2.0, DELTA, planned)
    assert budget.certificate is not None
    recheck(budget.certificate.wire(), [event.wire() for event in planned], *budget.guarantee)
    spent = certify([(SMALL, 7)], DELTA)
    assert spent is not None
    recheck(spent.wire(), record([(SMALL, 7)]), 2.0, DELTA)
    assert open_budget(None, None, planned).certificate is None


def test_the_check_loads_no_accountant_and_no_theorem() -> None:
    code = (
        "import sys, referee.audit.certificates\n"
        "print([name for name in sys.modules if name.startswith('common.privacy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
