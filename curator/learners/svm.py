"""Support vector machine: the learner of Appendix C of Kohen & Sheffet; not private."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, NonPrivate
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.records import Records
from curator.learners.base import LEARNERS, Learner, Sizes
from curator.numerics.squared_hinge import half_space, minimize
from curator.weights.sampling import Sampler


@LEARNERS.register("svm")
class Svm(Learner):
    """A half-space that separates m draws, where one does: the linear SVM with squared hinge loss.

    Minimizes ``|w|^2 / 2 + C sum_i max(0, 1 - l_i <w, y_i>)^2`` over m fresh draws, y = (x, intercept), beginning at
    the hypothesis released last: a new subsample of much the same records has its hyperplane near by. The objective is
    that of scikit-learn's ``LinearSVC``, which needs minutes for what takes a few Newton steps here.

    Attributes
    ----------
    draws
        m. A half-space in d dimensions without a mistake on ``(d + ln(T/beta)) / alpha`` draws has loss about alpha on
        their distribution (Appendix C prints the logarithm with the wrong sign; docs/errata.md, item 8).
    penalty
        C. Appendix C has 10^30, for "as exact a hyperplane as possible"; 100 separates its draws.
    intercept
        Value of the feature appended to every record; 0 for none.
    until
        ``separated``: stop as soon as no draw is on the wrong side, or else at the minimum; ``minimum``: go there
        always.
    """

    name: Literal["svm"] = "svm"
    draws: int = Field(ge=1, le=10**7)
    penalty: float = Field(default=100.0, gt=0, le=1e6)
    intercept: float = Field(default=1.0, ge=0)
    until: Literal["separated", "minimum"] = "separated"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of 2000 draws."""
        return (cls(draws=2000),)

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of the draws' numbers, of margins, and of all distinct draws, if all come near."""
        distinct = min(self.draws, sizes.people)
        margins = 32 * min(sizes.people, 8 * self.draws)
        return 16 * self.draws + margins + distinct * (sizes.width + 4 * sizes.dimension + 96)

    def event(self, sampling: float) -> Event:
        """No guarantee at all."""
        return NonPrivate()

    def learn(
        self, sampler: Sampler, source: RandomSource, previous: Hypothesis | None, public: Records | None = None
    ) -> Hypothesis:
        """Separate the distinct ones among the draws, which are not held but looked up again."""
        drawn = sampler.distinct(self.draws, source.derive("draws"))
        weights = minimize(
            drawn,
            self._first(sampler.dimension, previous),
            self.penalty,
            self.intercept,
            separate=self.until == "separated",
        )
        return half_space(weights, sampler.dimension, self.intercept)

    def _first(self, dimension: int, previous: Hypothesis | None) -> Floats:
        if not (isinstance(previous, Linear) and len(previous.weights) == dimension):
            return np.zeros(dimension + (self.intercept > 0.0))
        if self.intercept == 0.0:
            return np.array(previous.weights)
        return np.array([*previous.weights, -previous.threshold / self.intercept])
