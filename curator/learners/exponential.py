"""The exponential mechanism over a finite class: stumps on a public grid, or sparse conjunctions."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from common.core.errors import BadScenario
from common.learners.rules import ExponentialSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.mechanisms.access import Access
from curator.mechanisms.selection import FewestMistakes

MAX_HYPOTHESES = 1 << 31
"""So many conjunctions are gone through in a quarter of a minute or so; each round goes through them twice."""


@LEARNERS.register("exponential")
class Exponential(ExponentialSettings, Learner):
    """h with probability proportional to exp(-epsilon * mistakes(h) / 2), mistakes counted on m draws.

    See :class:`curator.mechanisms.selection.FewestMistakes`.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(hypotheses="stumps", draws=2000, epsilon=1.0),)

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if self.hypotheses == "conjunctions" and (dtype != np.uint8 or dimension < self.literals):
            raise BadScenario(
                f"conjunctions of {self.literals} want that many 0/1 features, found {dimension} of type {dtype}"
            )
        if self.hypotheses == "conjunctions" and math.comb(dimension, self.literals) > MAX_HYPOTHESES:
            raise BadScenario(
                f"{math.comb(dimension, self.literals):,} conjunctions of {self.literals} among {dimension} features "
                f"are more than {MAX_HYPOTHESES:,}: fewer literals"
            )

    def room(self, sizes: CallSizes) -> int:
        cells = 0 if self.hypotheses == "conjunctions" else sizes.dimension * self.cells
        return self.draws * (2 * sizes.width + 32) + 40 * cells

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        return access.release(self._mechanism, draws=self.draws)

    @property
    def _mechanism(self) -> FewestMistakes:
        return FewestMistakes(self.hypotheses, self.epsilon, self.literals, self.low, self.high, self.cells)
