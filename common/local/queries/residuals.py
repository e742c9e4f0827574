"""Queries about residuals: how far a probability, or a number that is predicted, is from a person's own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices
from common.local.hypotheses.hypothesis import GREATEST, PLANE, Linear, PlainHypothesis
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery
from common.local.records import Records
from common.numerics.elementary import logistic

_REGRESSION: dict[str, Any] = {"kind": "regressor", "weights": [0.5, -1.0], "intercept": 0.25, "response": 3}
_Score = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


@QUERIES.register("residual")
class ResidualQuery(AlikeQuery):
    """(1 + f(x) (y - p(x)))/2: y is 1 for label +1, else 0, p(x) = 1/(1 + e^-(slope * score(x) + intercept)).

    f is 1; or the score, or <direction, x>, in units of ``spread`` from ``center``, cut to [-1, 1]. The mean of f (y -
    p) is the derivative of the logistic loss in the intercept, or about that in the slope or along the direction: it is
    0 where p is right for T.

    Attributes:
        spread: Positive; None: f is 1.
        direction: One number a feature, from the first on; None: f is made of the score.
    """

    kind: Literal["residual"] = "residual"
    hypothesis: PlainHypothesis
    slope: _Score
    intercept: _Score
    center: _Score = 0.0
    spread: float | None = Field(default=None, gt=0, le=GREATEST, exclude_if=lambda spread: spread is None)
    direction: tuple[_Score, ...] | None = Field(
        default=None, min_length=1, max_length=1 << 20, exclude_if=lambda direction: direction is None
    )
    examples: ClassVar = (
        {"hypothesis": PLANE, "slope": 1.0, "intercept": 0.5, "spread": 2.0, "direction": [0.5, -1.0, 0.0]},
        {"hypothesis": PLANE, "slope": 1.0, "intercept": 0.5},
        {"hypothesis": PLANE, "slope": 2.0, "intercept": -1.0, "center": 0.1, "spread": 0.7},
    )

    def asks(self, names: Names, slot: int) -> str:
        of = "its score" if self.direction is None else "a weighted sum of what your record has"
        weighed = "" if self.spread is None else f", times how far {of} is from the middle"
        return (
            f"how far the probability that {self.hypothesis.rule(names)} gives is from {self.hypothesis.target(names)} "
            f"for you{weighed}: a number from 0 to 1"
        )

    @property
    def min_features(self) -> int:
        return max(self.hypothesis.min_features, len(self.direction or ()))

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        with np.errstate(all="ignore"):
            scores = np.nan_to_num(self.hypothesis.scores(records.features), nan=0.0, posinf=GREATEST, neginf=-GREATEST)
        apart = (self.hypothesis.labels(records) > 0) - logistic(self.slope * scores + self.intercept)
        if self.direction is not None:
            turned = Linear(weights=self.direction, threshold=0.0).scores(records.features)
            scores = np.nan_to_num(turned, nan=0.0, posinf=GREATEST, neginf=-GREATEST)
        if self.spread is not None:
            apart *= np.clip((scores - self.center) / self.spread, -1.0, 1.0)
        return np.asarray(0.5 * (1.0 + apart))


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
