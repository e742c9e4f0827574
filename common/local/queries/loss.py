"""Queries about the errors of given hypotheses on my record: a loss, or a comparison of two."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from common.core.arrays import Floats, Indices, Words
from common.local.hypotheses.hypothesis import AnyHypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import Loss, evaluate
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery, FrequencyQuery
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


OUTCOMES = 3
"""The first errs alone, neither or both do, the second errs alone."""


@QUERIES.register("compare")
class CompareQuery(FrequencyQuery):
    """Item 0 if only the first is wrong on me, 2 if only the second is, 1 if neither or both are.

    Hypotheses that nearly agree differ on few people; their losses, asked about one by one, have the variance of all
    who err. The answer depends on no one on whom both err. With k-ary randomized response
    (:class:`~common.local.mechanisms.k_ary.KaryResponse`) the difference of the losses is estimated by
    :func:`common.statistics.intervals.difference`.

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


@QUERIES.register("sole-error")
class SoleErrorQuery(AlikeQuery):
    """1 if the hypothesis is wrong on me and the other one is right, else 0.

    The share of people on whom only the first of two hypotheses errs, less the share on whom only the second errs, is
    the difference of their 0/1 losses: those on whom both err cancel. So one bit from some agents, and the mirrored
    question to as many others, compare the two. Where both mostly agree, nearly all values are 0, and a randomized bit
    about a rare event varies less than one about a loss (:mod:`common.statistics.intervals`).

    The mechanism is the one for any value in [0, 1]. :class:`~common.local.queries.loss.CompareQuery` has three
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
