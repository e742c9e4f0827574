"""Reweigh the records by a hypothesis."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from common.vocabulary.hypotheses.base import AnyHypothesis
from common.vocabulary.hypotheses.conjunction import Conjunction
from common.vocabulary.losses import Loss
from common.vocabulary.operations.base import OPERATIONS, Operation, Result
from common.vocabulary.weighing import HypothesisLoss


class Reweighed(Result):
    """Nothing: the weights are the curator's own."""


@OPERATIONS.register("reweigh")
class Reweigh(Operation[Reweighed]):
    """Multiply every record's weight by exp(-eta (1 - loss of this hypothesis)). Releases nothing.

    Attributes
    ----------
    hypothesis
        Any; not only those that this curator released.
    loss
        ``zero-one``, ``hinge`` or ``perceptron``, the latter two clamped to [0, 1]: see
        :data:`common.vocabulary.losses.Loss`.
    """

    result: ClassVar = Reweighed
    kind: Literal["reweigh"] = "reweigh"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return that by a conjunction."""
        return (cls(hypothesis=Conjunction(features=(1, 3))),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.hypothesis.min_features

    @property
    def reweighs_by(self) -> HypothesisLoss:
        """The hypothesis's loss."""
        return HypothesisLoss(self.hypothesis, self.loss)
