"""A front in the manner of scikit-learn: ``fit`` runs the embedded deployment, ``predict`` uses what it released."""

from deploy.estimators.domain_classifier import DomainAdapter
from deploy.estimators.domain_regressor import DomainAdapterRegressor
from deploy.estimators.exceptions import EXPECTED_FAILED_CHECKS
from deploy.estimators.guarantee import Guarantee, Spending
from deploy.estimators.transfer import TransferClassifier

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "DomainAdapter",
    "DomainAdapterRegressor",
    "Guarantee",
    "Spending",
    "TransferClassifier",
]
