"""A front in the manner of scikit-learn: ``fit`` runs the embedded deployment, ``predict`` uses what it released."""

from tandem.estimators.adaptation import DomainAdapter, DomainAdapterRegressor
from tandem.estimators.base import EXPECTED_FAILED_CHECKS
from tandem.estimators.fitting import CannotHelpWarning, PrivateClippingWarning
from tandem.estimators.frames import PublicClippingWarning
from tandem.estimators.guarantee import Guarantee, Spending
from tandem.estimators.regression import TransferRegressor
from tandem.estimators.transfer import TransferClassifier

__all__ = ["EXPECTED_FAILED_CHECKS", "CannotHelpWarning", "DomainAdapter", "DomainAdapterRegressor", "Guarantee"]
__all__ += ["PrivateClippingWarning", "PublicClippingWarning", "Spending", "TransferClassifier", "TransferRegressor"]
