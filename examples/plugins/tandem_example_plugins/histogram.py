"""A learner: the best interval of a noisy histogram. Planning reads what a round costs off its event."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from tandem.extend import (
    LEARNERS,
    SETTINGS,
    Access,
    AnyArray,
    Event,
    Hypothesis,
    Indices,
    Learner,
    NoisyHistogram,
    Records,
    Release,
)
from tandem_example_plugins.interval import GREATEST, Interval


@SETTINGS.register("example-histogram")
@LEARNERS.register("example-histogram")
class Histogram(Learner):
    """Sum up the labels in cells of the first feature, add noise, and take the run of cells with the greatest sum.

    The mechanism is a noisy histogram: pure epsilon-DP on the sample itself, whatever the weights. Which run is
    the best is a function of the noisy sums.

    Attributes:
        epsilon: Of one call, in [0.01, 30].
        low, high: Public range that the cells divide; the outermost two reach beyond it.
        cells: How many, 2 to 1000.
    """

    reweighs: ClassVar[bool] = False

    name: Literal["example-histogram"] = "example-histogram"
    epsilon: float = Field(ge=0.01, le=30)
    low: float = -1.0
    high: float = 1.0
    cells: int = Field(default=50, ge=2, le=1000)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one with little noise, for features in [-1, 1]."""
        return (cls(epsilon=5.0),)

    def event(self, tv_bound: float) -> Event:
        """One pure release from the sample itself: no draws, so no amplification either."""
        return Release(epsilon=self.epsilon)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        """Sum up, choose; the weights, the previous hypothesis and public people play no part."""
        inner = np.linspace(self.low, self.high, self.cells + 1)[1:-1]

        def cells(records: Records) -> tuple[Indices, AnyArray]:
            return np.searchsorted(inner, records.features[:, 0], side="left"), records.labels

        noisy = access.release(NoisyHistogram(self.epsilon, self.cells), cells)
        totals = np.concatenate([[0.0], np.cumsum(noisy)])
        gains = totals[None, :] - totals[:, None]  # of the cells from row to column
        first, last = np.unravel_index(int(np.argmax(np.triu(gains))), gains.shape)
        borders = np.concatenate([[-GREATEST], inner, [GREATEST]])
        return Interval(feature=0, low=float(borders[first]), high=float(borders[last]))
