"""Queries about residuals of a regression: how far a number that is predicted is from a person's own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices
from common.local.hypotheses.hypothesis import GREATEST, PlainHypothesis
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery
from common.local.records import Records

_REGRESSION: dict[str, Any] = {"kind": "regressor", "weights": [0.5, -1.0], "intercept": 0.25, "response": 3}
_Score = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


@QUERIES.register("response-residual")
class ResponseResidualQuery(AlikeQuery):
    """(1 + f(x) clip((r - v(x))/reach, -1, 1))/2: r is the response and v the prediction, both in [0, 1].

    f is 1, or the prediction in units of ``spread`` from ``center``, cut to [-1, 1]. Where no residual is beyond
    ``reach``, the mean of f (r - v) is minus half the derivative of the squared loss in the offset of the predictions,
    or about that in their slope: it is 0 where they are right for T. Elsewhere it is that of Huber's loss (1964), which
    is linear beyond.

    Attributes:
        spread: Positive; None: f is 1.
    """

    kind: Literal["response-residual"] = "response-residual"
    hypothesis: PlainHypothesis
    reach: float = Field(default=1.0, ge=2.0**-20, le=1.0)
    center: _Score = 0.0
    spread: float | None = Field(default=None, gt=0, le=GREATEST, exclude_if=lambda spread: spread is None)
    examples: ClassVar = (
        {"hypothesis": _REGRESSION},
        {"hypothesis": _REGRESSION, "reach": 0.5, "center": 0.4, "spread": 0.25},
    )

    def asks(self, names: Names, slot: int) -> str:
        weighed = "" if self.spread is None else ", times how far its prediction is from the middle"
        most = "" if self.reach == 1.0 else f", of which {self.reach:g} and more count alike"
        return (
            f"how far {self.hypothesis.target(names)} is for you above or below the prediction of "
            f"{self.hypothesis.rule(names)}{most}{weighed}: a number from 0 to 1"
        )

    @property
    def min_features(self) -> int:
        return self.hypothesis.min_features

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        values = self.hypothesis.values(records.features)
        apart = np.clip((self.hypothesis.responses(records) - values) / self.reach, -1.0, 1.0)
        if self.spread is not None:
            apart *= np.clip((values - self.center) / self.spread, -1.0, 1.0)
        return np.asarray(0.5 * (1.0 + apart))
