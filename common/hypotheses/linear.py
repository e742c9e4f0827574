"""Linear threshold: sign(<w, x> - b)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from common.arrays import AnyArray, Singles
from common.hypotheses.base import HYPOTHESES, Hypothesis

MOST_WEIGHTS = 1 << 16
GREATEST = 1e30
"""Predictions are computed in float32, which ends at 3.4e38."""

Weight = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


@HYPOTHESES.register("linear")
class Linear(Hypothesis):
    """The half-space h(x) = +1 if <w, x> > b else -1, over the first ``len(weights)`` features.

    Attributes
    ----------
    weights
        d numbers in [-1e30, 1e30], 1 <= d <= 65536.
    threshold
        b, in [-1e30, 1e30].
    """

    kind: Literal["linear"] = "linear"
    weights: tuple[Weight, ...] = Field(min_length=1, max_length=MOST_WEIGHTS)
    threshold: Weight

    @cached_property
    def vector(self) -> Singles:
        """The weights as a float32 vector of shape (d,)."""
        return np.asarray(self.weights, dtype=np.float32)

    @property
    def least_dimension(self) -> int:
        """Number of weights."""
        return len(self.weights)

    def margins(self, features: AnyArray) -> Singles:
        """Return <w, x> - b for each row, shape (n,), float32."""
        products = features[:, : len(self.weights)] @ self.vector
        return np.asarray(products - np.float32(self.threshold), dtype=np.float32)

    def positive(self, features: AnyArray) -> AnyArray:
        """Predict +1 where the margin is positive."""
        return self.margins(features) > 0
