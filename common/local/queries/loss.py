"""Queries about the errors of given hypotheses on my record: a loss, or a comparison of two."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from common.core.arrays import Floats, Indices, Words
from common.local.hypotheses.hypothesis import AnyHypothesis
from common.local.hypotheses.linear import PLANE
from common.local.hypotheses.rules import Constant
from common.local.losses import Loss, evaluate
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery, FrequencyQuery
from common.local.records import Records

_OTHER: dict[str, Any] = {**PLANE, "weights": [0.5, 1.0, 2.0], "threshold": -0.1}
_CONSTANT: dict[str, Any] = {"kind": "constant", "label": 1}


@QUERIES.register("loss")
class LossQuery(AlikeQuery):
    """L(h(x), l), in [0, 1], one of :data:`common.local.losses.Loss`: the test of Kohen & Sheffet's algorithms."""

    kind: Literal["loss"] = "loss"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"
    examples: ClassVar = ({"hypothesis": PLANE}, {"hypothesis": PLANE, "loss": "hinge"})

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


OUTCOMES = 3  # the first errs alone, neither or both do, the second errs alone


@QUERIES.register("compare")
class CompareQuery(FrequencyQuery):
    """Item 0 if only the first is wrong on me, 2 if only the second is, 1 if neither or both are.

    Hypotheses that nearly agree differ on few people; their losses, asked about one by one, have the variance of all
    who err. The shares of items 0 and 2 differ by as much as their 0/1 losses.
    """

    kind: Literal["compare"] = "compare"
    first: AnyHypothesis
    second: AnyHypothesis
    examples: ClassVar = ({"first": PLANE, "second": _CONSTANT}, {"first": _OTHER, "second": PLANE, "public": 3})

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
        return (1 + self.second.mistakes(records) - self.first.mistakes(records)).astype(np.uint64)


@QUERIES.register("sole-error")
class SoleErrorQuery(AlikeQuery):
    """1 if the hypothesis is wrong on me and the other one is right, else 0.

    The share of people on whom only the first of two hypotheses errs, less the share on whom only the second errs, is
    the difference of their 0/1 losses. So one bit from some agents, and the mirrored question to as many others,
    compare the two. Where both mostly agree, nearly all values are 0, and a randomized bit about a rare event varies
    less than one about a loss (:mod:`common.statistics.intervals`). Unlike :class:`CompareQuery` it needs no oracle for
    items as the run's mechanism.
    """

    kind: Literal["sole-error"] = "sole-error"
    hypothesis: AnyHypothesis
    other: AnyHypothesis
    examples: ClassVar = ({"hypothesis": PLANE, "other": _CONSTANT}, {"hypothesis": _OTHER, "other": PLANE})

    def asks(self, names: Names, slot: int) -> str:
        return (
            f"whether {self.hypothesis.rule(names)} is wrong about you where {self.other.rule(names, 'another')} is "
            f"right: the value is 1 if so, else 0"
        )

    @property
    def min_features(self) -> int:
        return max(self.hypothesis.min_features, self.other.min_features)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return np.asarray(self.hypothesis.mistakes(records) > self.other.mistakes(records), dtype=np.float64)
