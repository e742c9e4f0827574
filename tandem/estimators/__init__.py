"""Estimators with the interface of scikit-learn: ``fit`` runs the embedded deployment, ``predict`` uses its release."""

from tandem.estimators.adaptation import DomainAdapter, DomainAdapterRegressor
from tandem.estimators.fitting import CannotHelpWarning, PrivateClippingWarning, PrivateConstantWarning
from tandem.estimators.frames import PublicClippingWarning
from tandem.estimators.guarantee import Guarantee, Spending
from tandem.estimators.regression import TransferRegressor
from tandem.estimators.transfer import TransferClassifier

__all__ = ["CannotHelpWarning", "DomainAdapter", "DomainAdapterRegressor", "Guarantee", "PrivateClippingWarning"]
__all__ += ["PrivateConstantWarning", "PublicClippingWarning", "Spending", "TransferClassifier", "TransferRegressor"]
