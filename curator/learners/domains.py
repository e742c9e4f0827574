"""What adaptation learns from: a source and a target sample, one of which is private; what the public one says."""

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
        BadData: If the shapes do not belong together, there is nobody, or a number is not finite.
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
        return cls(np.concatenate([one.features for one in sides]), np.concatenate([one.responses for one in sides]))

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1])

    def bounded(self, norm: float) -> DomainSide:
        """Return the same people, each by itself within public bounds: ||x|| <= ``norm`` scaled, |y| <= 1 clipped."""
        largest = np.maximum(np.abs(self.features).max(axis=1), np.finfo(np.float64).tiny)
        rows = self.features / largest[:, None]  # of no number that could overflow
        kept = np.minimum(largest, norm / np.linalg.norm(rows, axis=1).clip(1.0))
        within = largest * np.sqrt(len(rows.T)) <= norm  # for sure, so that such rows stay as they are
        moved = np.where(within[:, None], self.features, rows * kept[:, None])
        return DomainSide(moved, np.clip(self.responses, -1.0, 1.0))


@dataclass(frozen=True)
class Domains:
    """Source, m people, and target, n people, with the same features; one of them is private.

    Neighbouring domains differ in one record of the private side by replacement, in its fixed place; both sizes are
    public, and so is everything of the other side. A private ``source`` is the reverse scenario of the paper's
    Section 7.
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
        """The side that everybody may see."""
        return self.target if self.private == "source" else self.source

    def shares(self, alpha: float) -> tuple[float, float]:
        """Return the reference weights of one record: of the source, alpha/m, and of the target, (1 - alpha)/n."""
        return alpha / len(self.source), (1.0 - alpha) / len(self.target)

    def private_share(self, alpha: float) -> float:
        return self.shares(alpha)[self.private == "target"]

    def labelled_by(self, weights: Floats, loss: Loss) -> Domains:
        """Return the same people with what a public w says of them in the place of all labels."""

        def labelled(side: DomainSide) -> DomainSide:
            scores = side.features @ weights
            signs = np.where(scores > 0.0, 1.0, -1.0)
            return DomainSide(side.features, np.clip(scores, -1.0, 1.0) if loss == "squared" else signs)

        return Domains(labelled(self.source), labelled(self.target), self.private)

    def first_of_target(self, count: int) -> Domains:
        """Return the same source, and the first ``count`` people of the target."""
        target = DomainSide(self.target.features[:count], self.target.responses[:count])
        return Domains(self.source, target, self.private)

    def bounded(self, norm: float) -> Domains:
        return Domains(self.source.bounded(norm), self.target.bounded(norm), self.private)


WITHIN = 0.75  # share of the public rows that are within the norm
_CONSTANT = 1e-6  # A column of a smaller deviation is only centred


class Whitening(NamedTuple):
    """An affine map of features, x -> (x - mean)/deviation @ turn: public, and of each row by itself."""

    mean: Floats
    deviation: Floats
    turn: Floats

    def moved(self, features: Floats) -> Floats:
        return (features - self.mean) / self.deviation @ self.turn

    def pulled_back(self, weights: Floats) -> tuple[Floats, float]:
        """Return weights v and a constant b with <v, x> + b = <weights, moved(x)>."""
        own = self.turn @ weights / self.deviation
        return own, -float(self.mean @ own)


def whitening(public: Floats, norm: float) -> Whitening:
    """Return the map for rows of a public sample, shape (m, d), m positive.

    ::

        x -> c V (D + I)^-1/2 V' standard(x),   standard(x) = (x - mean)/deviation

    V and D are the eigenvectors and values of the correlations. Gradient descent learns the large directions of
    correlated features and nothing else in its first thousands of steps; (D + I)^-1/2 shortens them, and does not blow
    up small ones, in which there is only noise. c puts :data:`WITHIN` of the rows within the norm.
    """
    mean, deviation = public.mean(axis=0), public.std(axis=0)
    deviation = np.where(deviation > _CONSTANT, deviation, 1.0)
    standard = (public - mean) / deviation
    values, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    turn = (vectors / np.sqrt(np.maximum(values, 0.0) + 1.0)) @ vectors.T
    length = float(np.quantile(np.linalg.norm(standard @ turn, axis=1), WITHIN))
    return Whitening(mean, deviation, turn * (norm / length if length > 0.0 else 1.0))


CLIP_QUANTILE = 0.82
"""Of the public residuals' sizes. For normal residuals it is 1.345 standard deviations, Huber's constant (1964)."""
LEAST_CLIP = 2.0**-8
"""Share of the greatest residual, radius norm + 1, below which a public clip never is: a clip bounds how far w moves in
a step, so a source that is fitted exactly must not stop it.
"""
WANDER = 0.25  # by what share of itself noise alone may raise the public loss
RIDGE = 1e-5
"""Penalty of the logistic fit, times the square of the rows' norm: without one, separable classes have no fit."""


class PublicFit(NamedTuple):
    """The fit of the public side alone: w_0, in the ball, of least mean loss; and how far from it noise may take w.

    ``residual_clip`` is the :data:`CLIP_QUANTILE` of |w_0.x - y|, at least :data:`LEAST_CLIP` of the greatest residual.
    """

    weights: Floats
    residual_clip: float
    reach: float


def fit_public(side: DomainSide, loss: Loss, radius: float, norm: float) -> PublicFit:
    """Fit the public side, which is within public bounds (||x|| <= ``norm``, |y| <= 1), over ||w|| <= ``radius``.

    Isotropic noise of root mean square length ``reach`` raises the public mean loss by a quarter at most. With M the
    mean of x x', it raises the squared loss by reach^2 tr(M)/d in expectation, exactly, and the logistic one by an
    eighth of that at most (its second derivative is 1/4 at most), beside what the slope adds, which is 0 in
    expectation. T noisy steps of size step are a martingale of root mean square length step sigma sqrt(d T) if nothing
    pulls back, and the gradient of a convex loss only pulls back.
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
_HALVINGS = 24  # of the interval in which the logarithm of a penalty lies
_FLATTEST = 1e-12  # ridge, as a share of the largest curvature, that decides between equally good weights


def least_squares(side: DomainSide, shares: Floats, radius: float) -> Floats:
    """Return the minimizer of sum_i q_i (w . x_i - y_i)^2 over ||w|| <= radius.

    The ridge solution (A + nu I)^-1 b whose nu >= 0 puts it on the sphere, or nu = 0 inside it, by bisection in the
    eigenbasis of A. The shares q are non-negative.
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

    The shares q are non-negative and about 1 in sum; it begins at 0 by default.
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
            tried := _objective(signed, shares, penalty, weights - length * step)
        ) > value - 0.25 * length * decrement:
            length *= 0.5
            if length < 1e-10:
                return weights
        weights, value = weights - length * step, tried
    return weights


def logistic_in_ball(
    side: DomainSide, shares: Floats, penalty: float, radius: float, start: Floats | None = None
) -> Floats:
    """Return the :func:`logistic` fit over ||w|| <= radius, up to a thousandth of the radius.

    Where the fit is longer, the least penalty at which it is not is found by bisection: the length falls in the
    penalty. That is the minimizer over the ball up to ``penalty ||w||^2/2``, by its Lagrangian.
    """
    weights = logistic(side, shares, penalty, start)
    if np.linalg.norm(weights) <= radius:
        return weights
    # At the least loss, penalty ||w|| is the size of the gradient, at most that of the greatest row.
    greatest = float(shares @ np.linalg.norm(side.features, axis=1)) / radius
    low, high = np.log(penalty), np.log(max(greatest, 2.0 * penalty))
    inside = logistic(side, shares, float(np.exp(high)), np.zeros_like(weights))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        found = logistic(side, shares, float(np.exp(middle)), inside)
        if np.linalg.norm(found) > radius:
            low = middle
            continue
        inside, high = found, middle
        if np.linalg.norm(inside) > 0.999 * radius:
            break
    return inside


def _objective(signed: Floats, shares: Floats, penalty: float, weights: Floats) -> float:
    return float(shares @ np.logaddexp(0.0, -(signed @ weights)) + 0.5 * penalty * (weights @ weights))
