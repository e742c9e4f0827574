"""The input of adaptation: a source and a target sample, one of which is private; and fits of the public one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from common.core.arrays import Floats
from common.core.errors import BadData
from common.learners.adaptation import Private

Loss = Literal["squared", "logistic", "cross-entropy"]


@dataclass(frozen=True, repr=False, eq=False)
class DomainSide:
    """k labelled people of one domain: features (k, d) and responses (k,), finite; labels are -1 or +1.

    Raises:
        BadData: If the shapes do not match, there are no people, or a number is not finite.
    """

    features: Floats
    responses: Floats

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.responses.shape != (len(self.features),) or not self.features.size:
            raise BadData(
                f"a side wants features (k, d) and responses (k,), k and d positive; "
                f"found {self.features.shape} and {self.responses.shape}"
            )
        if not (np.isfinite(self.features).all() and np.isfinite(self.responses).all()):
            raise BadData("features and responses must be finite; drop or clip what is not by public bounds first")

    def __len__(self) -> int:
        return len(self.responses)

    @classmethod
    def joined(cls, sides: Sequence[DomainSide]) -> DomainSide:
        return cls(
            np.concatenate([side.features for side in sides]), np.concatenate([side.responses for side in sides])
        )

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1])

    def bounded(self, norm: float) -> DomainSide:
        """Return the same people, each brought within public bounds: x scaled to ||x|| <= ``norm``, y clipped to 1."""
        largest = np.maximum(np.abs(self.features).max(axis=1), np.finfo(np.float64).tiny)
        rows = self.features / largest[:, None]  # no number here can overflow
        factors = np.minimum(largest, norm / np.linalg.norm(rows, axis=1).clip(1.0))
        within = largest * np.sqrt(len(rows.T)) <= norm  # certainly within, so that these rows stay unchanged
        scaled = np.where(within[:, None], self.features, rows * factors[:, None])
        return DomainSide(scaled, np.clip(self.responses, -1.0, 1.0))


@dataclass(frozen=True)
class Domains:
    """A source of m people and a target of n people with the same features; one of them is private.

    Neighbouring domains differ in one record of the private side, replaced in its fixed place. Both sizes and the
    whole other side are public. A private ``source`` is the reverse scenario of the paper's Section 7.
    """

    source: DomainSide
    target: DomainSide
    private: Private = "target"

    @property
    def dimension(self) -> int:
        return self.source.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.source), len(self.target)

    @property
    def people(self) -> int:
        return self.sizes[self.private == "target"]

    @property
    def public(self) -> DomainSide:
        return self.target if self.private == "source" else self.source

    def shares(self, alpha: float) -> tuple[float, float]:
        """Return the reference weight of one source record, alpha/m, and of one target record, (1 - alpha)/n."""
        return alpha / len(self.source), (1.0 - alpha) / len(self.target)

    def private_share(self, alpha: float) -> float:
        return self.shares(alpha)[self.private == "target"]

    def labelled_by(self, weights: Floats, loss: Loss) -> Domains:
        """Return the same people with all labels replaced by the predictions of a public w."""

        def relabel(side: DomainSide) -> DomainSide:
            scores = side.features @ weights
            signs = np.where(scores > 0.0, 1.0, -1.0)
            return DomainSide(side.features, np.clip(scores, -1.0, 1.0) if loss == "squared" else signs)

        return Domains(relabel(self.source), relabel(self.target), self.private)

    def first_of_target(self, count: int) -> Domains:
        target = DomainSide(self.target.features[:count], self.target.responses[:count])
        return Domains(self.source, target, self.private)

    def bounded(self, norm: float) -> Domains:
        return Domains(self.source.bounded(norm), self.target.bounded(norm), self.private)


WITHIN = 0.75  # share of the public rows that are within the norm
_CONSTANT = 1e-6  # a column with a smaller standard deviation is only centred


class Whitening(NamedTuple):
    """A public affine map of features, x -> (x - mean)/deviation @ turn, applied to each row by itself."""

    mean: Floats
    deviation: Floats
    turn: Floats

    def moved(self, features: Floats) -> Floats:
        return (features - self.mean) / self.deviation @ self.turn

    def pulled_back(self, weights: Floats) -> tuple[Floats, float]:
        """Return weights v and a constant b with <v, x> + b = <weights, moved(x)>."""
        slopes = self.turn @ weights / self.deviation
        return slopes, -float(self.mean @ slopes)


def whitening(public: Floats, norm: float) -> Whitening:
    """Return the map for rows of a public sample, shape (m, d), m positive.

    ::

        x -> c V (D + I)^-1/2 V' standard(x),   standard(x) = (x - mean)/deviation

    V and D are the eigenvectors and eigenvalues of the correlation matrix. In its first thousands of steps, gradient
    descent on correlated features learns only the directions of large variance. (D + I)^-1/2 shortens these without
    amplifying small directions, which contain only noise. c puts the share :data:`WITHIN` of the rows within the norm.
    """
    mean, deviation = public.mean(axis=0), public.std(axis=0)
    deviation = np.where(deviation > _CONSTANT, deviation, 1.0)
    standard = (public - mean) / deviation
    values, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    turn = (vectors / np.sqrt(np.maximum(values, 0.0) + 1.0)) @ vectors.T
    length = float(np.quantile(np.linalg.norm(standard @ turn, axis=1), WITHIN))
    return Whitening(mean, deviation, turn * (norm / length if length > 0.0 else 1.0))


CLIP_QUANTILE = 0.82
"""Quantile of the absolute public residuals. For normal residuals it is 1.345 deviations, Huber's constant (1964)."""
LEAST_CLIP = 2.0**-8
"""Least public clip, as a share of the greatest residual, radius norm + 1. A clip bounds how far w moves in a step, so
without this minimum a public side that is fitted exactly would stop w.
"""
WANDER = 0.25  # share of itself by which noise alone may raise the public loss
RIDGE = 1e-5
"""Penalty of the logistic fit, times the squared norm of rows; without one, separable classes have no finite fit."""


class PublicFit(NamedTuple):
    """The fit of the public side alone: w_0 in the ball with the least mean loss, and how far noise may move w from it.

    ``residual_clip`` is the :data:`CLIP_QUANTILE` of |w_0.x - y|, at least :data:`LEAST_CLIP` of the greatest residual.
    """

    weights: Floats
    residual_clip: float
    reach: float


def fit_public(side: DomainSide, loss: Loss, radius: float, norm: float) -> PublicFit:
    """Fit the public side, which is within public bounds (||x|| <= ``norm``, |y| <= 1), over ||w|| <= ``radius``.

    ``reach`` is the root mean square length of isotropic noise that raises the public mean loss by at most a quarter.
    With M the mean of x x', such noise raises the squared loss by exactly reach^2 tr(M)/d in expectation, and the
    logistic loss by at most an eighth of that (its second derivative is at most 1/4); the first-order term is 0 in
    expectation. Without a gradient, T noisy steps are a martingale of root mean square length step sigma sqrt(d T),
    and the gradient of a convex loss can only pull w back.
    """
    shares = np.full(len(side), 1.0 / len(side))
    if loss == "squared":
        weights = least_squares(side, shares, radius)
    else:
        weights = logistic_in_ball(side, shares, RIDGE * norm * norm, radius)
    weights *= min(1.0, radius / max(float(np.linalg.norm(weights)), radius))
    residuals = np.abs(side.features @ weights - side.responses)
    clip = max(float(np.quantile(residuals, CLIP_QUANTILE)), LEAST_CLIP * (radius * norm + 1.0))
    scores = side.features @ weights
    losses = (scores - side.responses) ** 2 if loss == "squared" else np.logaddexp(0.0, -side.responses * scores)
    spread = float(np.square(side.features).sum(axis=1).mean()) * (1.0 if loss == "squared" else 0.125)
    allowed = WANDER * float(losses.mean()) * side.dimension
    reach = min(radius, math.sqrt(allowed / spread)) if spread > 0.0 else radius
    return PublicFit(weights, clip, reach)


_NEWTON_STEPS = 50
_HALVINGS = 24  # of the interval that contains the logarithm of a penalty
_FLATTEST = 1e-12  # ridge, as a share of the largest curvature, that decides between equally good weights


def least_squares(side: DomainSide, shares: Floats, radius: float) -> Floats:
    """Return the minimizer of sum_i q_i (w . x_i - y_i)^2 over ||w|| <= radius.

    It is the ridge solution (A + nu I)^-1 b, with nu = 0 if that is inside the sphere, else with the nu > 0 that puts
    it on the sphere, found by bisection in the eigenbasis of A. The shares q are non-negative.
    """
    weighted = side.features * shares[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ side.features)
    values, projected = np.maximum(values, 0.0), vectors.T @ (weighted.T @ side.responses)
    least = _FLATTEST * max(float(values[-1]), 1e-300)
    if np.linalg.norm(projected / (values + least)) <= radius:
        return np.asarray(vectors @ (projected / (values + least)))
    low, high = least, float(np.linalg.norm(projected)) / radius + least
    for _ in range(200):
        middle = np.sqrt(low * high)
        if np.linalg.norm(projected / (values + middle)) > radius:
            low = middle
        else:
            high = middle
    return np.asarray(vectors @ (projected / (values + high)))


def logistic(side: DomainSide, shares: Floats, penalty: float, start: Floats | None = None) -> Floats:
    """Return the minimizer of sum_i q_i ln(1 + e^(-y_i w . x_i)) + penalty ||w||^2 / 2, by damped Newton.

    The shares q are non-negative and sum to about 1; Newton's method starts at 0 by default.
    """
    signed = side.features * side.responses[:, None]
    weights = np.zeros(signed.shape[1]) if start is None else start.copy()
    value = _objective(signed, shares, penalty, weights)
    for _ in range(_NEWTON_STEPS):
        wrong = expit(-(signed @ weights))
        slope = penalty * weights - signed.T @ (shares * wrong)
        curvature = (signed * (shares * wrong * (1.0 - wrong))[:, None]).T @ signed
        curvature[np.diag_indices_from(curvature)] += penalty
        step = cho_solve(cho_factor(curvature), slope)
        decrement, length = float(slope @ step), 1.0
        if decrement < 1e-14 * max(1.0, value):
            break
        while (
            trial := _objective(signed, shares, penalty, weights - length * step)
        ) > value - 0.25 * length * decrement:
            length *= 0.5
            if length < 1e-10:
                return weights
        weights, value = weights - length * step, trial
    return weights


def logistic_in_ball(
    side: DomainSide, shares: Floats, penalty: float, radius: float, start: Floats | None = None
) -> Floats:
    """Return the :func:`logistic` fit over ||w|| <= radius, up to a thousandth of the radius.

    If the fit is longer than that, the least penalty at which it is not is found by bisection, since the length
    decreases in the penalty. By its Lagrangian, this is the minimizer over the ball up to ``penalty ||w||^2/2``.
    """
    weights = logistic(side, shares, penalty, start)
    if np.linalg.norm(weights) <= radius:
        return weights
    # At the minimum, penalty ||w|| is the norm of the gradient, at most that of the longest row.
    greatest = float(shares @ np.linalg.norm(side.features, axis=1)) / radius
    low, high = np.log(penalty), np.log(max(greatest, 2.0 * penalty))
    inside = logistic(side, shares, float(np.exp(high)), np.zeros_like(weights))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        candidate = logistic(side, shares, float(np.exp(middle)), inside)
        if np.linalg.norm(candidate) > radius:
            low = middle
            continue
        inside, high = candidate, middle
        if np.linalg.norm(inside) > 0.999 * radius:
            break
    return inside


def _objective(signed: Floats, shares: Floats, penalty: float, weights: Floats) -> float:
    return float(shares @ np.logaddexp(0.0, -(signed @ weights)) + 0.5 * penalty * (weights @ weights))
