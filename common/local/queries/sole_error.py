"""Is a hypothesis wrong on my record where another one is right."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from common.core.arrays import Floats, Indices
from common.local.hypotheses.hypothesis import AnyHypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import evaluate
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery
from common.local.records import Records


@QUERIES.register("sole-error")
class SoleErrorQuery(AlikeQuery):
    """1 if the hypothesis is wrong on me and the other one is right, else 0.

    The share of people on whom only the first of two hypotheses errs, less the share on whom only the second errs, is
    the difference of their 0/1 losses: those on whom both err cancel. So one bit from some agents, and the mirrored
    question to as many others, compare the two. Where both mostly agree, nearly all values are 0, and a randomized bit
    about a rare event varies less than one about a loss (:mod:`common.statistics.paired`).

    The mechanism is the one for any value in [0, 1]. :class:`~common.local.queries.compare.CompareQuery` has three
    outcomes and needs an oracle for items as the run's mechanism, which a run that asks for losses cannot have.

    Attributes:
        hypothesis: Whose errors count.
        other: Where this one errs, too, the value is 0.
    """

    kind: Literal["sole-error"] = "sole-error"
    hypothesis: AnyHypothesis
    other: AnyHypothesis

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
        other = Linear(weights=(0.5, 1.0, 2.0), threshold=-0.1)
        return (cls(hypothesis=plane, other=Constant(label=1)), cls(hypothesis=other, other=plane))

    def asks(self, names: Names, slot: int) -> str:
        return (
            f"whether {self.hypothesis.rule(names)} is wrong about you where {self.other.rule(names, 'another')} is "
            f"right: the value is 1 if so, else 0"
        )

    @property
    def min_features(self) -> int:
        return max(self.hypothesis.min_features, self.other.min_features)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        wrong, also = (evaluate("zero-one", hypothesis, records) > 0.5 for hypothesis in (self.hypothesis, self.other))
        return np.asarray(wrong & ~also, dtype=np.float64)
