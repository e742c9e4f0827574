"""The 0/1 loss of a given hypothesis on my record."""

from __future__ import annotations

from typing import Literal

import numpy as np

from common.arrays import Floats, Indices
from common.hypotheses.base import AnyHypothesis
from common.queries.base import QUERIES, Query
from common.records import Records


@QUERIES.register("loss")
class LossQuery(Query):
    """L(h(x), l) = 1 if h(x) differs from my label, else 0: the test of Algorithms 1, 2 and 4 of Kohen & Sheffet."""

    kind: Literal["loss"] = "loss"
    hypothesis: AnyHypothesis

    @property
    def least_dimension(self) -> int:
        """That of the hypothesis."""
        return self.hypothesis.least_dimension

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        """Return 0.0 or 1.0 per record; slots do not matter."""
        return self.hypothesis.mistakes(records).astype(np.float64)
