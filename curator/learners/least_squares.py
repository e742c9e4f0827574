"""Least squares from one noisy release of moments: a regression, or a half-space."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.learners.half_spaces import LeastSquaresSettings
from common.local.hypotheses.hypothesis import GREATEST, Hypothesis, Linear, Regressor
from common.local.records import Records
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.learners.preconditioning import Preconditioner, precondition, room
from curator.mechanisms.access import Access, as_it_is
from curator.mechanisms.sums import ClassMoments, Moments

_LEAST = 1e-3  # of the spread of a regression's predictions, in units of the response's bounds


@LEARNERS.register("least-squares")
class LeastSquares(LeastSquaresSettings, Learner):
    """The prediction ``m_y + <(A + lambda I)^-1 c, x - m>``, A the covariance of features, c theirs with the response.

    All come from one noisy release (:class:`curator.mechanisms.sums.ClassMoments`, of one class) of records z after a
    first look (:mod:`curator.learners.preconditioning`), in which the response is one more feature. A record that is
    too long is shortened as a whole, so a linear relation of its response and features stays one. lambda is ``ridge``
    times the spectral norm of A's noise. With c, noise gives weights a part that explains nothing: they are multiplied
    by what least squares says of the rest. The regression carries the mean and the deviation of its own predictions, as
    the same release has them, by which agents are asked for its slope; both are post-processing.
    """

    examples: ClassVar = ({"mu": 2.0, "norm": 2.0, "predicts": "label"},)

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if self.predicts == "response" and dimension < 2:
            raise BadScenario("least-squares: the last feature is predicted from those before it: one is too few")

    def noise_numbers(self, sizes: CallSizes) -> int:
        size = sizes.dimension + 1
        return 3 * size + 1 + size * (size + 1) // 2

    def room(self, sizes: CallSizes) -> int:
        size = sizes.dimension + 1
        return 2 * room(sizes) + (8 << 13) * 6 * size + 8 * 12 * size * size

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        labelled = self.predicts == "label"
        of = _with_label if labelled else as_it_is
        width = access.dimension + int(labelled)
        seen = precondition(access, self, of, width)
        mechanism = ClassMoments(seen.radius, width, self.shares[1], classes=1)
        moments = access.release(mechanism, lambda records: _alike(seen.of(of(records))))
        weights, mean, covariance = least_squares(moments, access.people, mechanism.deviations, self.ridge)
        # From z = s (x - m), in units of the radius, to x.
        middle = seen.mean + seen.radius * mean / seen.scale
        found = np.clip(weights * seen.scale[:-1] / seen.scale[-1], -GREATEST, GREATEST)
        intercept = float(np.clip(middle[-1] - found @ middle[:-1], -GREATEST, GREATEST))
        if labelled:
            return Linear(weights=tuple(found.tolist()), threshold=0.5 - intercept)
        return Regressor(
            weights=tuple(found.tolist()),
            intercept=intercept,
            response=width - 1,
            center=float(np.clip(middle[-1], 0.0, 1.0)),
            spread=float(np.clip(math.sqrt(_variance(found, seen, covariance)), _LEAST, 1.0)),
        )


def least_squares(
    moments: Moments, people: int, deviations: tuple[float, float, float], ridge: float
) -> tuple[Floats, Floats, Floats]:
    """Return weights, means of features and response, and the features' covariance, in the units of the moments.

    ``deviations`` are those of the noise on numbers of people, on sums and on sums of squares.
    """
    square = deviations[2] / people
    mean = moments.first[0] / people
    covariance = moments.second / people - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance[:-1, :-1])
    values = np.maximum(values, 0.0)
    along = vectors.T @ covariance[:-1, -1]
    damped = values + ridge * math.sqrt(2.0 * len(values)) * square
    turned = along / damped
    # The predictions' covariance with the response, a part of which noise has put there, and their variance.
    explained = float(turned @ along)
    false = 0.5 * square * square * float((1.0 / damped).sum())
    variance = float(turned @ (values * turned))
    slope = max(explained - false, 0.1 * explained) / max(variance, 0.05 * explained, 1e-12)
    return vectors @ (slope * turned), mean, (vectors * values) @ vectors.T


def _variance(weights: Floats, seen: Preconditioner, covariance: Floats) -> float:
    """Return the variance of <w, x>: that of features of these variances, correlated as z are that are clipped."""
    own = weights / seen.scale[:-1]
    if seen.variances is None:
        return float(own @ covariance @ own) * seen.radius**2
    apart = max(float(np.square(own) @ np.diagonal(covariance)), 1e-300)
    together = float(np.clip(own @ covariance @ own / apart, 1.0 / len(own), len(own)))
    return together * float(np.square(weights) @ seen.variances[:-1])


def _with_label(records: Records) -> Records:
    label = (records.labels > 0).astype(np.float32)
    return Records(np.column_stack([records.features.astype(np.float32), label]), records.labels)


def _alike(records: Records) -> Records:
    return Records(records.features, np.zeros(len(records), dtype=np.int8))
