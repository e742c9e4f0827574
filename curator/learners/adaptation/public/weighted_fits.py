"""Weighted fits without noise, for public rows and for baselines: least squares and logistic regression in a ball."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from common.core.arrays import Floats
from common.numerics.special import expit
from curator.learners.adaptation.domains import Side

_NEWTON_STEPS = 50
_HALVINGS = 24
"""Of the interval in which the logarithm of a penalty lies."""
_FLATTEST = 1e-12
"""Ridge, as a share of the largest curvature, that decides between equally good weights."""


def least_squares(side: Side, shares: Floats, radius: float) -> Floats:
    """Return the minimizer of sum_i q_i (w . x_i - y_i)^2 over ||w|| <= radius.

    Exact up to rounding: the ridge solution (A + nu I)^-1 b whose nu >= 0 puts it on the sphere, or nu = 0 inside it,
    by bisection in the eigenbasis of A.

    Parameters
    ----------
    side
        k rows.
    shares
        q, shape (k,), non-negative.
    radius
        Of the ball.
    """
    weighted = side.features * shares[:, None]
    return constrained(weighted.T @ side.features, weighted.T @ side.responses, radius)


def constrained(curvature: Floats, slope: Floats, radius: float) -> Floats:
    """Return the minimizer of w'Aw - 2 b'w over ||w|| <= radius, for A positive semidefinite, shape (d, d)."""
    values, vectors = np.linalg.eigh(curvature)
    values, projected = np.maximum(values, 0.0), vectors.T @ slope
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


def logistic(side: Side, shares: Floats, penalty: float, start: Floats | None = None) -> Floats:
    """Return the minimizer of sum_i q_i ln(1 + e^(-y_i w . x_i)) + penalty ||w||^2 / 2, by damped Newton.

    Parameters
    ----------
    side
        k rows; responses are -1 or +1.
    shares
        q, shape (k,), non-negative; about 1 in sum.
    penalty
        Positive.
    start
        Where to begin, shape (d,); 0 by default.
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


def logistic_in_ball(side: Side, shares: Floats, penalty: float, radius: float, start: Floats | None = None) -> Floats:
    """Return the :func:`logistic` fit over ||w|| <= radius, up to a thousandth of the radius.

    Where the fit is longer, the least penalty at which it is not is found by bisection: the length falls in the
    penalty. That is the minimizer over the ball up to ``penalty ||w||^2/2``, by its Lagrangian.

    Parameters
    ----------
    side, shares, penalty, start
        As of :func:`logistic`.
    radius
        Of the ball, positive.
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
