"""The loss of a given hypothesis on my record."""

from __future__ import annotations

from typing import Literal, Self

from common.core.arrays import Floats, Indices
from common.local.hypotheses.hypothesis import AnyHypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import Loss, evaluate
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery
from common.local.records import Records


@QUERIES.register("loss")
class LossQuery(AlikeQuery):
    """L(h(x), l), in [0, 1]: the test of Algorithms 1, 2 and 4 of Kohen & Sheffet.

    Attributes:
        hypothesis: h.
        loss: ``zero-one``: 1 if h(x) differs from my label, else 0; or another of :data:`common.local.losses.Loss`.
    """

    kind: Literal["loss"] = "loss"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
        return (cls(hypothesis=plane), cls(hypothesis=plane, loss="hinge"))

    def asks(self, names: Names, slot: int) -> str:
        if isinstance(self.hypothesis, Constant):  # each of the losses is then 0 or 1
            return f"whether {names.labelled(-self.hypothesis.label)}: the value is 1 if so, else 0"
        rule = self.hypothesis.rule(names)
        if self.loss == "zero-one":
            return f"whether {rule} is wrong about you: the value is 1 if so, else 0"
        return f"how far {rule} is from right about you: a number from 0 to 1 ({self.loss} loss)"

    @property
    def min_features(self) -> int:
        return self.hypothesis.min_features

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return evaluate(self.loss, self.hypothesis, records)
