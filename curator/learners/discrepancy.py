"""The discrepancy of two domains over a ball of linear models: its value, its sensitivity, and its noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.operations.target_bound import Released
from common.privacy.rounding import up
from curator.learners.domains import Domains, DomainSide, Loss
from curator.mechanisms.gaussian_noise import whole_normals

TOLERANCE = 2.0**-26  # eta: how far a computed discrepancy may be from the exact one, in shares of the greatest loss
_GRID = 2.0**-40
"""Unit of the grid for the estimate and its noise, in shares of the greatest loss, unless the noise is large."""


def greatest_loss(loss: Loss, radius: float, norm: float) -> float:
    """Return B: the greatest squared loss, or the greatest difference between logistic losses of one record."""
    scores = radius * norm
    return (scores + 1.0) ** 2 if loss == "squared" else scores


def discrepancy(
    domains: Domains,
    radius: float,
    norm: float,
    loss: Loss = "squared",
    *,
    one_sided: bool = False,
    around: Floats | None = None,
) -> CertifiedMaximum:
    """Return sup_w |L(target, w) - L(source, w)| over ||w|| <= ``radius``, certified; an upper bound for logistic loss.

    The domains are within public bounds, ||x|| <= ``norm`` and |y| <= 1. ``one_sided`` drops the absolute value. With
    ``around`` it is the *local* discrepancy, over ||w - around|| <= ``radius``: the same quadratics in w - around.

    *Squared loss.* The difference of two mean squared losses of w.x is quadratic in w, so both signs are trust-region
    problems, which are solved to their global maximum. The paper solves them by DCA, which may stop at a local maximum;
    that value has no bounded sensitivity.

    *Logistic loss.* With z = y x and s = w.z, ln(1 + e^-s) = -s/2 + h(s), h(s) = ln(2 cosh(s/2)). As a function of s^2,
    h is concave, so on [-S, S], S = radius * norm, it lies between a chord and a tangent:
    ln 2 + k s^2 <= h(s) <= ln 2 + s^2/8, k = (h(S) - ln 2)/S^2. So for both signs, the difference is at most
    max_w -w'(mean_T z - mean_S z)/2 + w'(M_T/8 - k M_S) w, M the mean of x x': a trust-region problem again.

    Raises:
        ArithmeticError: If the certificate is wider than :data:`TOLERANCE` of the greatest loss. No input within the
            bounds does that (sums of N d products lose less than N d 2^-53).
    """
    reach = reach_of(radius, around)
    greatest = greatest_loss(loss, reach, norm)
    source, target = (_moments(side, loss) for side in (domains.source, domains.target))
    first, second = (1.0, 1.0) if loss == "squared" else curvatures(reach * norm)
    signs = ((target, source), (source, target))[: 1 if one_sided else 2]
    sides = [_greatest_around(first * a[0] - second * b[0], a[1] - b[1], a[2] - b[2], radius, around) for a, b in signs]
    best = max(sides, key=lambda side: side.value)
    if not best.gap <= TOLERANCE * greatest:
        raise ArithmeticError(f"a discrepancy has a gap of {best.gap:.3g}, wanted {TOLERANCE * greatest:.3g} at most")
    return best


def curvatures(scores: float) -> tuple[float, float]:
    """Return 1/8 and k: the slopes in s^2 of the tangent and of the chord of h, on |s| <= ``scores``."""
    chord = (math.log1p(math.exp(-scores)) + scores / 2.0 - math.log(2.0)) / scores**2 if scores > 1e-4 else 0.0
    return 0.125, min(0.125, max(0.0, chord))


def sensitivity(domains: Domains, radius: float, norm: float, loss: Loss = "squared") -> float:
    """Return how far :func:`discrepancy` can move if one private record is replaced, rounding included.

    Every private record adds f_w(x, y)/k to the maximized function, where k is the size of the private side and f_w
    lies in an interval of public width B for every w. So replacing it moves the maximum by at most B/k, and a computed
    value within eta of the maximum by at most B/k + 2 eta. Eta is the public :data:`TOLERANCE` times the greatest loss,
    never the certificate itself, which depends on the records.
    """
    scores = radius * norm
    width = greatest = greatest_loss(loss, radius, norm)
    if loss == "logistic":
        # The range of -s/2 + c s^2 on |s| <= S is widest for c = 1/8; its minimum is at s = min(2, S).
        width = scores if scores <= 2.0 else scores / 2.0 + scores**2 / 8.0 + 0.5
    return width / domains.people + 2.0 * TOLERANCE * greatest


def private_discrepancy(
    domains: Domains,
    radius: float,
    norm: float,
    mu: float | None,
    source: RandomSource,
    loss: Loss = "squared",
    *,
    one_sided: bool = False,
    around: Floats | None = None,
) -> float:
    """Estimate the discrepancy: mu-GDP for the private side (replace one), in [0, B].

    Adds Gaussian noise of standard deviation sensitivity/mu on a public grid, then clips (post-processing).
    Without a mu it returns the exact value, which is not private.
    """
    value = discrepancy(domains, radius, norm, loss, one_sided=one_sided, around=around).value
    reach = reach_of(radius, around)
    change = 0.0 if mu is None else sensitivity(domains, reach, norm, loss)
    return private_value(value, greatest_loss(loss, reach, norm), change, mu, source)


def reach_of(radius: float, around: Floats | None) -> float:
    """Return a bound on ||w|| over the ball; it is public if the centre is."""
    return radius if around is None else (radius + float(np.linalg.norm(around))) * (1.0 + 2.0**-40)


def _greatest_around(
    quadratic: Floats, linear: Floats, constant: float, radius: float, around: Floats | None
) -> CertifiedMaximum:
    if around is None:
        return greatest_on_ball(quadratic, linear, constant, radius)
    product = quadratic @ around
    constant += float(around @ product - 2.0 * (linear @ around))
    maximum = greatest_on_ball(quadratic, linear - product, constant, radius)
    return maximum._replace(point=maximum.point + around)


def private_value(value: float, greatest: float, change: float, mu: float | None, source: RandomSource) -> float:
    """Return a value of sensitivity ``change`` with noise, clipped to [0, greatest]: mu-GDP; no noise if mu is None."""
    if mu is not None:
        unit, deviation = _value_noise(greatest, change, mu)
        noise = float(whole_normals(up(deviation / unit), 1, source)[0])
        value = float(np.rint(value / unit) + noise) * unit
    return min(max(value, 0.0), greatest)


def _value_noise(greatest: float, change: float, mu: float) -> tuple[float, float]:
    unit = max(_GRID * greatest, change / mu * 2.0**-48)  # noise in units is exact in a double
    return unit, (change + unit) / mu


def released_value(value: float, greatest: float, change: float, mu: float | None, slack: float = 0.0) -> Released:
    """Return the result of :func:`private_value` with the standard deviation of its noise and its rounding error."""
    if mu is None:
        return Released(value, 0.0, slack)
    unit, deviation = _value_noise(greatest, change, mu)
    return Released(value, up(deviation, 4.0), slack + 2.0 * unit)


def _moments(side: DomainSide, loss: Loss) -> tuple[Floats, Floats, float]:
    """Return A, b and c of the mean loss w'Aw - 2 b'w + c."""
    features, responses = side.features, side.responses
    second = features.T @ features / len(side)
    first = features.T @ responses / len(side)
    if loss == "logistic":
        return second, first / 4.0, 0.0
    return second, first, float(responses @ responses) / len(side)


_ROUNDING = 2.0**-50  # rounding error of eigenvectors and sums per coordinate, in shares of the terms' size


class CertifiedMaximum(NamedTuple):
    """A certified maximum: it is in [value - gap, value], by the dual bound; ``point`` (d,) attains the lower end."""

    value: float
    gap: float
    point: Floats


def greatest_on_ball(quadratic: Floats, linear: Floats, constant: float, radius: float) -> CertifiedMaximum:
    """Maximize ``w'Aw - 2 b'w + c`` over ``||w|| <= radius``, globally, with a certificate.

    The problem is not concave, but its duality gap is zero (Boyd and Vandenberghe, Appendix B). In the basis of A's
    eigenvectors,

        g(nu) = c + nu R^2 + sum_i b_i^2 / (nu - a_i),   nu >= max(a_1, 0), a_1 the greatest eigenvalue,

    is an upper bound for every such nu. It is convex, and minimal where ||w(nu)|| = R with w(nu)_i = -b_i/(nu - a_i)
    (the secular equation). If w is shorter even at the least nu, it is extended along the first eigenvector (the *hard
    case*, in which b is 0 in that direction), or it is inside the ball already (nu = 0).

    A, shape (d, d), is symmetric, of any signs; b has shape (d,).
    """
    values, vectors = np.linalg.eigh(quadratic)
    b = vectors.T @ linear
    floor = max(float(values[-1]), 0.0)
    distances = floor - values  # all at least 0; the last is 0 where A has a positive eigenvalue
    excess = _excess(distances, b, radius)
    w = _point(distances, b, excess)
    if floor > 0.0:
        # The hard case, or a norm that rounding left too short: extend w along the eigenvector of the least distance.
        missing = radius * radius - float(w @ w)
        w[-1] = math.copysign(math.sqrt(max(missing + w[-1] * w[-1], 0.0)), -b[-1])
    w *= min(1.0, radius / max(float(np.linalg.norm(w)), radius))
    reached = float(values @ (w * w) - 2.0 * (b @ w)) + constant
    with np.errstate(divide="ignore", invalid="ignore"):
        dual = np.where(b == 0.0, 0.0, b * b / (distances + excess))
    bound = constant + (floor + excess) * radius * radius + float(dual.sum())
    size = float(np.abs(values).max()) * radius * radius + 2.0 * float(np.linalg.norm(b)) * radius + abs(constant)
    rounding = _ROUNDING * len(b) * size
    point = vectors @ w
    point *= min(1.0, radius / max(float(np.linalg.norm(point)), radius))
    return CertifiedMaximum(bound + rounding, max(bound - reached, 0.0) + 2.0 * rounding, point)


def _point(distances: Floats, b: Floats, excess: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0.0, 0.0, -b / (distances + excess))


def _excess(distances: Floats, b: Floats, radius: float) -> float:
    """Return by how much nu exceeds its least value: the root of ||w|| = radius, or 0 if w is shorter there already."""

    def length(excess: float) -> float:
        return float(np.linalg.norm(_point(distances, b, excess)))

    if length(0.0) <= radius:
        return 0.0
    # From ||b||/radius on, every denominator is large enough.
    high = max(math.sqrt(len(b)) * float(np.abs(b).max()) / radius, np.finfo(np.float64).tiny)
    while length(high) > radius:
        high *= 2.0
    low = high
    while length(low) <= radius:
        low, high = 0.5 * low, low
    from scipy.optimize import brentq  # here, since it takes a fifth of a second to load, and one learner needs it

    # 1/||w|| is nearly straight in nu.
    return float(brentq(lambda excess: 1.0 / length(excess) - 1.0 / radius, low, high, xtol=5e-324, rtol=2.0**-50))
