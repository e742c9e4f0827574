"""The loss of a given hypothesis on my record."""

from __future__ import annotations

from typing import Literal, Self

from common.core.arrays import Floats, Indices
from common.vocabulary.hypotheses.base import AnyHypothesis
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.losses import Loss, evaluate
from common.vocabulary.queries.base import QUERIES, AlikeQuery
from common.vocabulary.records import Records


@QUERIES.register("loss")
class LossQuery(AlikeQuery):
    """L(h(x), l), in [0, 1]: the test of Algorithms 1, 2 and 4 of Kohen & Sheffet.

    Attributes
    ----------
    hypothesis
        h.
    loss
        ``zero-one``: 1 if h(x) differs from my label, else 0; or another of :data:`common.vocabulary.losses.Loss`.
    """

    kind: Literal["loss"] = "loss"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return the 0/1 loss and the hinge loss of a half-space."""
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
        return (cls(hypothesis=plane), cls(hypothesis=plane, loss="hinge"))

    @property
    def asks(self) -> str:
        """Say whether a rule labels the record wrongly, or how large its loss is."""
        rule = f"a given rule ({self.hypothesis.in_words})"
        if self.loss == "zero-one":
            return f"whether {rule} labels your record wrongly: the value is 1 if it does, 0 if it does not"
        return f"the {self.loss} loss of {rule} on your record: a value from 0 to 1"

    @property
    def min_features(self) -> int:
        """That of the hypothesis."""
        return self.hypothesis.min_features

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        """Return the loss of each record; slots do not matter."""
        return evaluate(self.loss, self.hypothesis, records)
