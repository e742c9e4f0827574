"""Support vector machine: the learner of Appendix C of Kohen & Sheffet; not private."""

from __future__ import annotations

from typing import Self

import numpy as np

from common.core.arrays import Floats
from common.learners.half_spaces import SvmSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.local.records import Records
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.metering.access import Access
from curator.numerics.squared_hinge import half_space, minimize


@LEARNERS.register("svm")
class Svm(SvmSettings, Learner):
    """A half-space that separates m draws, where one does: the linear SVM with squared hinge loss.

    Minimizes ``|w|^2 / 2 + C sum_i max(0, 1 - l_i <w, y_i>)^2`` over m fresh draws, y = (x, intercept), beginning at
    the hypothesis released last: a new subsample of much the same records has its hyperplane near by. The objective is
    that of scikit-learn's ``LinearSVC``, which needs minutes for what takes a few Newton steps here.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(draws=2000),)

    def room(self, sizes: CallSizes) -> int:
        distinct = min(self.draws, sizes.people)
        margins = 32 * min(sizes.people, 8 * self.draws)
        return 16 * self.draws + margins + distinct * (sizes.width + 4 * sizes.dimension + 96)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        drawn = access.distinct(self.draws)
        weights = minimize(
            drawn,
            self._first(access.dimension, previous),
            self.penalty,
            self.intercept,
            separate=self.until == "separated",
        )
        return half_space(weights, access.dimension, self.intercept)

    def _first(self, dimension: int, previous: Hypothesis | None) -> Floats:
        if not (isinstance(previous, Linear) and len(previous.weights) == dimension):
            return np.zeros(dimension + (self.intercept > 0.0))
        if self.intercept == 0.0:
            return np.array(previous.weights)
        return np.array([*previous.weights, -previous.threshold / self.intercept])
