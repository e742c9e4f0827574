"""Which of two hypotheses is wrong on my record, if only one is."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from common.core.arrays import Indices, Words
from common.local.hypotheses.hypothesis import AnyHypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import evaluate
from common.local.naming import Names
from common.local.queries.query import QUERIES, FrequencyQuery
from common.local.records import Records

OUTCOMES = 3
"""The first errs alone, neither or both do, the second errs alone."""


@QUERIES.register("compare")
class CompareQuery(FrequencyQuery):
    """Item 0 if only the first is wrong on me, 2 if only the second is, 1 if neither or both are.

    Hypotheses that nearly agree differ on few people; their losses, asked about one by one, have the variance of all
    who err. The answer depends on no one on whom both err. With k-ary randomized response
    (:class:`~common.local.mechanisms.krr.KaryResponse`) the difference of the losses is estimated by
    :func:`common.statistics.paired.difference`.

    Attributes:
        first, second: The hypotheses. Losses are 0/1: 1 where the prediction differs from my label.
    """

    kind: Literal["compare"] = "compare"
    first: AnyHypothesis
    second: AnyHypothesis

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
        other = Linear(weights=(0.5, 1.0, 2.0), threshold=-0.1)
        return (cls(first=plane, second=Constant(label=1)), cls(first=other, second=plane, public=3))

    @property
    def domain(self) -> int:
        return OUTCOMES

    def asks(self, names: Names, slot: int) -> str:
        first, second = self.first.rule(names), self.second.rule(names, "another")
        return f"which of two rules is wrong about you, if only one is: {first}, or {second}"

    @property
    def min_features(self) -> int:
        return max(self.first.min_features, self.second.min_features)

    def evaluate(self, records: Records, slots: Indices) -> Words:
        first, second = (evaluate("zero-one", hypothesis, records) > 0.5 for hypothesis in (self.first, self.second))
        return (1 + second.astype(np.int64) - first.astype(np.int64)).astype(np.uint64)
