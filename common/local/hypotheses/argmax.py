"""Several classes: one hypothesis a class, and the class whose hypothesis is surest."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Indices, Labels
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis, PlainHypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.trees import MAX_NODES, Trees
from common.local.naming import Names
from common.local.records import Records

MAX_CLASSES = 64


@HYPOTHESES.register("argmax")
class Argmax(Hypothesis):
    """Predicts the class c whose hypothesis has the greatest score, the lowest of several; held against a record's own.

    A record's own class stands in C features, one a class (``first``, ...): class c iff feature first + c is above 1/2
    and no other of them is. A record with several classes, or none, is always a mistake.

    As a classifier into -1 and +1 it says whether the class that it predicts is the record's own, and all labels that
    it is held against are +1. So every loss is the multi-class 0/1 loss, a function of one record like any other.

    Attributes:
        first: The first of the C features that hold the class.
        hypotheses: One a class, 2 <= C <= 64; they look at features before ``first`` only. Together they have no more
            nodes of trees than one hypothesis may have, so a row takes no more work.
    """

    nests: ClassVar[bool] = True

    kind: Literal["argmax"] = "argmax"
    first: int = Field(ge=0, lt=1 << 16)
    hypotheses: tuple[PlainHypothesis, ...] = Field(min_length=2, max_length=MAX_CLASSES)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.25)
        return (cls(first=3, hypotheses=(Linear(weights=(0.0,), threshold=0.0), plane)),)

    @model_validator(mode="after")
    def _blind(self) -> Self:
        needed = max(hypothesis.min_features for hypothesis in self.hypotheses)
        if needed > self.first:
            raise ValueError(
                f"the classes are features {self.first} and after: their hypotheses must look at features before them "
                f"only, one needs {needed}"
            )
        nodes = sum(len(hypothesis.feature) for hypothesis in self.hypotheses if isinstance(hypothesis, Trees))
        if nodes > MAX_NODES:
            raise ValueError(f"all trees together have at most {MAX_NODES} nodes, found {nodes}")
        return self

    @property
    def min_features(self) -> int:
        return self.first + len(self.hypotheses)

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(sorted({feature for hypothesis in self.hypotheses for feature in hypothesis.inputs}))

    def target(self, names: Names) -> str:
        classes = range(self.first, self.first + len(self.hypotheses))
        return f"which one of these is true ({names.conditions(classes)})"

    def classes(self, features: AnyArray) -> Indices:
        """Return the predicted classes, shape (n,), int64; a score that is not a number is below all others."""
        inputs = features[:, : self.first]
        greatest, predicted = np.full(len(features), -np.inf), np.zeros(len(features), dtype=np.int64)
        with np.errstate(all="ignore"):
            for number, hypothesis in enumerate(self.hypotheses):
                scores = hypothesis.scores(inputs)
                greater = scores > greatest
                greatest[greater], predicted[greater] = scores[greater], number
        return predicted

    def positive(self, features: AnyArray) -> AnyArray:
        return np.equal(self.classes(features), column_classes(features, self.first, len(self.hypotheses)))

    def labels(self, records: Records) -> Labels:
        return np.ones(len(records), dtype=np.int8)


def column_classes(features: AnyArray, first: int, count: int) -> Indices:
    """Return the class that stands in ``count`` columns, shape (n,), int64; -1 where several are above 1/2, or none."""
    above = features[:, first : first + count] > 0.5
    return np.where(np.count_nonzero(above, axis=1) == 1, above.argmax(axis=1), -1).astype(np.int64)
