"""A front in the manner of scikit-learn: ``fit`` runs the embedded deployment, ``predict`` uses what it released."""

from tandem.estimators.domain_classifier import DomainAdapter
from tandem.estimators.domain_regressor import DomainAdapterRegressor
from tandem.estimators.exceptions import EXPECTED_FAILED_CHECKS
from tandem.estimators.shared.clipping import PublicClippingWarning
from tandem.estimators.shared.fitting import CannotHelpWarning, PrivateClippingWarning
from tandem.estimators.shared.guarantee import Guarantee, Spending
from tandem.estimators.transfer import TransferClassifier

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "CannotHelpWarning",
    "DomainAdapter",
    "DomainAdapterRegressor",
    "Guarantee",
    "PrivateClippingWarning",
    "PublicClippingWarning",
    "Spending",
    "TransferClassifier",
]
