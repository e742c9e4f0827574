"""Queries about residuals: the difference of a person's label or number from its predicted probability or value."""

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Indices
from common.local.hypotheses.composed import MAX_CLASSES, Argmax, column_classes
from common.local.hypotheses.hypothesis import GREATEST, PLANE, Linear, PlainHypothesis
from common.local.naming import Names
from common.local.queries.query import QUERIES, HypothesisQuery
from common.local.records import Records
from common.numerics.elementary import logistic, ordered_sum, softmax

_REGRESSION: dict[str, Any] = {"kind": "regressor", "weights": [0.5, -1.0], "intercept": 0.25, "response": 3}
_Score = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


_SCALED = "scaled to a number from 0 to 1"


@QUERIES.register("residual")
class ResidualQuery(HypothesisQuery):
    """How far the label is from its predicted probability: (1 + f(x) (y - p(x))/m(x))/2, in [0, 1].

    y is 1 for label +1, else 0, and p(x) = 1/(1 + e^-(slope * score(x) + intercept)). m is the greater of p and 1 - p,
    the largest possible distance of y from p. f is 1; or it is 1 where the score, or <direction, x>, is above
    ``center``, else -1. The mean of f (y - p)/m is 0 if p is right for T.

    *Theorem.* Let each agent answer about g(x) (y - p(x)), which lies in [-1, 1], with one bit that is truthful with a
    fixed probability. If the odds of +1 are e^(t h(x)) times those of p, the Fisher information of each bit about t at
    t = 0 is greatest for g = sign(h)/m. *Proof.* A bit is 1 with probability 1/2 + c E g (y - p), so its variance at
    t = 0 is 1/4 for every g, and the derivative of its mean is c E g h p (1 - p). As y may be either label, |g| is at
    most 1/m, and g h is greatest for g = sign(h)/m. QED. So f = 1 is best for the intercept, and a sign for the slope
    or for the coefficient of a direction.

    Attributes:
        center: Where f changes its sign; None: f is 1.
        direction: One number per feature, from the first on; None: f depends on the score.
    """

    kind: Literal["residual"] = "residual"
    hypothesis: PlainHypothesis
    slope: _Score
    intercept: _Score
    center: _Score | None = Field(default=None, exclude_if=lambda center: center is None)
    direction: tuple[_Score, ...] | None = Field(
        default=None, min_length=1, max_length=1 << 20, exclude_if=lambda direction: direction is None
    )
    examples: ClassVar = (
        {"hypothesis": PLANE, "slope": 1.0, "intercept": 0.5, "center": 0.0, "direction": [0.5, -1.0, 0.0]},
        {"hypothesis": PLANE, "slope": 1.0, "intercept": 0.5},
        {"hypothesis": PLANE, "slope": 2.0, "intercept": -1.0, "center": 0.1},
    )

    @model_validator(mode="after")
    def _centered(self) -> Self:
        if self.direction is not None and self.center is None:
            raise ValueError("a direction needs a center, above which its sign is +1")
        return self

    def asks(self, names: Names, slot: int) -> str:
        quantity = "its score" if self.direction is None else "a weighted sum of what your record has"
        sign = "" if self.center is None else f", with the opposite sign unless {quantity} is above {self.center:g}"
        return (
            f"by how much {self.hypothesis.rule(names)} errs about you: the difference between "
            f"{self.hypothesis.target(names)} and the probability that it gives{sign}, {_SCALED}"
        )

    @property
    def min_features(self) -> int:
        return max(super().min_features, len(self.direction or ()))

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        with np.errstate(all="ignore"):
            scores = np.nan_to_num(self.hypothesis.scores(records.features), nan=0.0, posinf=GREATEST, neginf=-GREATEST)
        residuals = apart_from(logistic(self.slope * scores + self.intercept), self.hypothesis.labels(records) > 0)
        if self.direction is not None:
            projection = Linear(weights=self.direction, threshold=0.0).scores(records.features)
            scores = np.nan_to_num(projection, nan=0.0, posinf=GREATEST, neginf=-GREATEST)
        if self.center is not None:
            residuals *= np.where(scores > self.center, 1.0, -1.0)
        return np.asarray(0.5 * (1.0 + residuals))


def apart_from(chances: Floats, truth: AnyArray) -> Floats:
    """Return (y - p)/max(p, 1 - p), in [-1, 1], for probabilities p and truths y in [0, 1], which are broadcast."""
    return np.asarray((truth - chances) / np.maximum(chances, 1.0 - chances))


@QUERIES.register("response-residual")
class ResponseResidualQuery(HypothesisQuery):
    """How far the response is from its prediction: (1 + f(x) clip((r - v(x))/reach, -1, 1))/2.

    r is the response and v the prediction, both in [0, 1]. f is 1, or (v - center)/spread clipped to [-1, 1]. If no
    residual exceeds ``reach``, the mean of f (r - v) is minus half the derivative of the squared loss with respect to
    the offset of the predictions, or approximately that with respect to their slope: it is 0 if they are right for T.
    Otherwise the loss is Huber's (1964), which is linear beyond ``reach``.

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
        factor = "" if self.spread is None else ", times how far its prediction is from the middle"
        most = "" if self.reach == 1.0 else f", of which {self.reach:g} and more count alike"
        return (
            f"how far {self.hypothesis.target(names)} is for you above or below the prediction of "
            f"{self.hypothesis.rule(names)}{most}{factor}: a number from 0 to 1"
        )

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        values = self.hypothesis.values(records.features)
        residuals = np.clip((self.hypothesis.responses(records) - values) / self.reach, -1.0, 1.0)
        if self.spread is not None:
            residuals *= np.clip((values - self.center) / self.spread, -1.0, 1.0)
        return np.asarray(0.5 * (1.0 + residuals))


_SOFTMAX: dict[str, Any] = {
    "kind": "argmax",
    "first": 3,
    "hypotheses": [{"kind": "linear", "weights": [0.0], "threshold": 0.0}, PLANE],
}


@QUERIES.register("class-residual")
class ClassResidualQuery(HypothesisQuery):
    """How far the class is from its predicted probabilities: (1 + v_y(x)/max_c |v_c(x)|)/2, in [0, 1].

    y is the record's class, p the softmax of the scores, v_c = u_c - sum_k p_k u_k. u_c is 1 for the ``chosen`` classes
    and 0 for others; if none is chosen, u_c is the score of c. The value is 1/2 for a record with no class or several,
    or whose v are all 0.

    *Theorem.* Values are in [0, 1], and if the class of a record with features x has the probabilities p(x), their mean
    is 1/2, whatever the distribution of x is. *Proof.* The mean of v_y given x is sum_k p_k v_k = 0. QED. v_y is the
    derivative of the record's log likelihood in direction u; dividing it by max_c |v_c| makes it as large as an answer
    can be (:class:`ResidualQuery` explains why).
    """

    kind: Literal["class-residual"] = "class-residual"
    chosen: tuple[Annotated[int, Field(ge=0, lt=MAX_CLASSES)], ...] = Field(default=(), max_length=MAX_CLASSES)
    examples: ClassVar = ({"hypothesis": _SOFTMAX, "chosen": [1]}, {"hypothesis": _SOFTMAX})

    @model_validator(mode="after")
    def _of_classes(self) -> Self:
        if not isinstance(self.hypothesis, Argmax):
            raise ValueError(
                f"a residual of classes is about a hypothesis of kind argmax, found {self.hypothesis.kind}"
            )
        invalid = [number for number in self.chosen if number >= len(self.hypothesis.hypotheses)]
        if invalid or not len(set(self.chosen)) == len(self.chosen) < len(self.hypothesis.hypotheses):
            raise ValueError(
                f"chosen must name some of {len(self.hypothesis.hypotheses)} classes, not all, each once, from 0 on"
            )
        return self

    def asks(self, names: Names, slot: int) -> str:
        rule = self.hypothesis.rule(names)
        if not self.chosen:
            return f"how much surer {rule} is of your own class than it expects to be, {_SCALED}"
        return (
            f"the difference between the probability that {rule} gives to the classes "
            f"{', '.join(str(c + 1) for c in self.chosen)} of these together and whether yours is one of them, "
            f"{_SCALED}"
        )

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        model = self.hypothesis
        assert isinstance(model, Argmax)  # noqa: S101 - validated
        labels = column_classes(records.features, model.first, len(model.hypotheses))
        _, residuals = instruments(model.scores_by_class(records.features), self.chosen)
        residuals = residuals[np.arange(len(labels)), np.maximum(labels, 0)]
        return np.asarray(np.where(labels < 0, 0.5, 0.5 * (1.0 + residuals)))


def instruments(scores: Floats, chosen: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return p and v/max |v| as in :class:`ClassResidualQuery`, both of shape (n, C), for scores of that shape."""
    chances = softmax(scores)
    if chosen:
        instrument = np.zeros_like(scores)
        instrument[:, list(chosen)] = 1.0
    else:
        instrument = np.maximum(scores - scores.max(axis=1, keepdims=True), -GREATEST)
    centered = instrument - ordered_sum(chances * instrument)[:, None]
    most = np.abs(centered).max(axis=1, keepdims=True)
    return chances, np.asarray(centered / np.where(most > 0.0, most, 1.0))
