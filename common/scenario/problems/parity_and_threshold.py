"""Parity and threshold, side by side: the curator learns the one, the agents the other."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.data.distributions.parities import ParityAndThreshold as People
from common.local.hypotheses.rules import FeatureSet, Parity
from common.numerics.randomness import subseed
from common.scenario.problems.base import PROBLEMS, Problem

JUDGED = 1 << 17
"""Fresh people on whom an answer is judged."""


class Both(Value):
    """The answer: the features of x that the parity sums up (None: nobody said), and t: Thr(y) = 1 iff y >= t."""

    kind: Literal["parity-and-threshold"] = "parity-and-threshold"
    features: FeatureSet | None
    threshold: int = Field(ge=0)


@PROBLEMS.register("parity-and-threshold")
class ParityAndThreshold(Problem):
    """Appendix A: from (x, y, Par_k(x), Thr_t(y)) learn both concepts, each with an error of at most ``alpha``.

    Attributes
    ----------
    c
        Length of x, 1 to 128.
    b
        Length of y, 1 to 52.
    interactive
        Agents in rounds, with a mechanism of bits; or all questions at once, with a frequency oracle.
    """

    name: Literal["parity-and-threshold"] = "parity-and-threshold"
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    interactive: bool = True

    @property
    def dimension(self) -> int:
        """Length of x, of y, and one: Thr_t(y)."""
        return self.c + self.b + 1

    def cuts(self, alpha: float) -> int:
        """Return how many quantiles the form without interaction finds."""
        return math.ceil(4.0 / alpha)

    def surveyed(self, width: float, tolerance: float, beta: float) -> int:
        """Return how many agents say whether they are above the threshold."""
        return math.ceil(math.log(8.0 / beta) * width**2 / (2.0 * tolerance**2))

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        """Return the error of each concept on fresh people."""
        told = Both.parse(answer)
        if not isinstance(people, People):
            raise BadScenario(f"the truth of this problem is known of parity-and-threshold, found {people.name}")
        records = people.draw(subseed(people.threshold, "judge"), np.arange(JUDGED))
        parity = Parity(features=told.features or ())
        wrong = float(np.mean(parity.predict(records.features[:, : self.c]) != records.labels))
        above = people.values(records) >= np.uint64(min(told.threshold, (1 << 64) - 1))
        missed = float(np.mean(above != (records.features[:, -1] > 0)))
        right = wrong <= alpha and missed <= alpha
        return {"correct": right, "parity_error": wrong, "threshold_error": missed}
