"""Linear threshold: sign(<w, x> - b)."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field

from common.arrays import AnyArray, Labels, Singles
from common.hypotheses.base import HYPOTHESES, Hypothesis

MOST_WEIGHTS = 1 << 16


@HYPOTHESES.register("linear")
class Linear(Hypothesis):
    """The half-space h(x) = +1 if <w, x> > b else -1, over the first ``len(weights)`` features.

    Attributes
    ----------
    weights
        d finite numbers, 1 <= d <= 65536.
    threshold
        b.
    """

    kind: Literal["linear"] = "linear"
    weights: tuple[float, ...] = Field(min_length=1, max_length=MOST_WEIGHTS)
    threshold: float

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
        return np.asarray(features[:, : len(self.weights)] @ self.vector - np.float32(self.threshold), dtype=np.float32)

    def predict(self, features: AnyArray) -> Labels:
        """Predict +1 where the margin is positive, else -1."""
        return np.where(self.margins(features) > 0, np.int8(1), np.int8(-1))
