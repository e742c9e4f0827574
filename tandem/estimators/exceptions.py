"""Which of scikit-learn's estimator checks do not hold, and why; ``docs/estimators.md`` shows the same table."""

from __future__ import annotations

from collections.abc import Mapping

_FEW = (
    "fits ten people and wants a model or a word about their one feature; ten are refused, and the message says how "
    "many would do"
)

EXPECTED_FAILED_CHECKS: Mapping[str, Mapping[str, str]] = {
    "TransferClassifier": {"check_fit2d_1feature": _FEW},
    "DomainAdapter": {},
    "DomainAdapterRegressor": {},
}
"""For each estimator the checks that fail, each with its reason: for ``expected_failed_checks`` of scikit-learn."""
