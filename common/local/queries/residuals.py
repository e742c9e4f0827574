"""Queries about residuals: how far a probability, or a number that is predicted, is from a person's own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats, Indices
from common.local.hypotheses.composed import MAX_CLASSES, Argmax, column_classes
from common.local.hypotheses.hypothesis import GREATEST, PLANE, Linear, PlainHypothesis
from common.local.naming import Names
from common.local.queries.query import QUERIES, HypothesisQuery
from common.local.records import Records
from common.numerics.elementary import logistic, ordered_sum, softmax

_REGRESSION: dict[str, Any] = {"kind": "regressor", "weights": [0.5, -1.0], "intercept": 0.25, "response": 3}
_Score = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


@QUERIES.register("residual")
class ResidualQuery(HypothesisQuery):
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
        return max(super().min_features, len(self.direction or ()))

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
class ResponseResidualQuery(HypothesisQuery):
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

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        values = self.hypothesis.values(records.features)
        apart = np.clip((self.hypothesis.responses(records) - values) / self.reach, -1.0, 1.0)
        if self.spread is not None:
            apart *= np.clip((values - self.center) / self.spread, -1.0, 1.0)
        return np.asarray(0.5 * (1.0 + apart))


_SOFTMAX: dict[str, Any] = {
    "kind": "argmax",
    "first": 3,
    "hypotheses": [{"kind": "linear", "weights": [0.0], "threshold": 0.0}, PLANE],
}


@QUERIES.register("class-residual")
class ClassResidualQuery(HypothesisQuery):
    """(1 + u_y(x) - sum_c p_c(x) u_c(x))/2: y is the record's class, p the softmax of the scores of the classes.

    u_c is 1 for the classes that are ``chosen`` and 0 for others; with a ``spread`` it is how far the score of c is
    above its mean under p, in units of ``spread``, cut to [-1/2, 1/2]. A record of no class, or several, answers 1/2.

    *Theorem.* Values are in [0, 1], and where the classes of those with features x have the probabilities p(x), their
    mean is 1/2, whatever x are like. *Proof.* All u_c(x) of one record are in an interval of length 1, and so is their
    mean under p. The mean of u_y given x is that mean. QED. In direction u it is the derivative of the log likelihood.
    """

    kind: Literal["class-residual"] = "class-residual"
    chosen: tuple[Annotated[int, Field(ge=0, lt=MAX_CLASSES)], ...] = Field(default=(), max_length=MAX_CLASSES)
    spread: float | None = Field(default=None, gt=0, le=GREATEST, exclude_if=lambda spread: spread is None)
    examples: ClassVar = ({"hypothesis": _SOFTMAX, "chosen": [1]}, {"hypothesis": _SOFTMAX, "spread": 2.0})

    @model_validator(mode="after")
    def _of_classes(self) -> Self:
        if not isinstance(self.hypothesis, Argmax):
            raise ValueError(
                f"a residual of classes is about a hypothesis of kind argmax, found {self.hypothesis.kind}"
            )
        beyond = [number for number in self.chosen if number >= len(self.hypothesis.hypotheses)]
        if beyond or len(set(self.chosen)) < len(self.chosen):
            raise ValueError(f"chosen must name classes of {len(self.hypothesis.hypotheses)}, each once, from 0 on")
        if bool(self.chosen) == (self.spread is not None):
            raise ValueError("give the chosen classes, or a spread")
        return self

    def asks(self, names: Names, slot: int) -> str:
        of = self.hypothesis.rule(names)
        if self.spread is not None:
            return f"how far {of} is surer of your own class than it expects to be: a number from 0 to 1"
        return (
            f"how far the probability that {of} gives to the classes {', '.join(str(c + 1) for c in self.chosen)} of "
            "these together is from whether yours is one of them: a number from 0 to 1"
        )

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        model = self.hypothesis
        assert isinstance(model, Argmax)  # noqa: S101 - validated
        own = column_classes(records.features, model.first, len(model.hypotheses))
        chances, moved = instruments(model.scores_by_class(records.features), self.chosen, self.spread)
        apart = moved[np.arange(len(own)), np.maximum(own, 0)] - ordered_sum(chances * moved)
        return np.asarray(np.where(own < 0, 0.5, np.clip(0.5 * (1.0 + apart), 0.0, 1.0)))


def instruments(scores: Floats, chosen: tuple[int, ...], spread: float | None) -> tuple[Floats, Floats]:
    """Return p and u of a :class:`ClassResidualQuery`, both of shape (n, C), for scores of that shape."""
    chances = softmax(scores)
    if spread is None:
        moved = np.zeros_like(scores)
        moved[:, list(chosen)] = 1.0
        return chances, moved
    near = np.maximum(scores - scores.max(axis=1, keepdims=True), -GREATEST)
    return chances, np.clip((near - ordered_sum(chances * near)[:, None]) / spread, -0.5, 0.5)
