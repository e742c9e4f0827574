"""What adaptation learns from: a source and a target sample, one of which is private; what the public one says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from common.core.arrays import Floats
from common.core.errors import BadData, BadScenario
from common.learners.adaptation import Private
from common.numerics.randomness import RandomSource
from common.operations.target_bound import Released
from common.privacy.rounding import up
from curator.mechanisms.gaussian_noise import whole_normals

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

    @property
    def dimension(self) -> int:
        """Number of features d."""
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

    Raises:
        BadScenario: If their features differ in number.
    """

    source: DomainSide
    target: DomainSide
    private: Private = "target"

    def __post_init__(self) -> None:
        if self.source.dimension != self.target.dimension:
            raise BadScenario(
                f"source and target must have the same features, found {self.source.dimension} "
                f"and {self.target.dimension} of them"
            )

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self.source.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """M and n."""
        return len(self.source), len(self.target)

    @property
    def people(self) -> int:
        """Size of the private side."""
        return self.sizes[self.private == "target"]

    @property
    def public(self) -> DomainSide:
        """The side that everybody may see."""
        return self.target if self.private == "source" else self.source

    def shares(self, alpha: float) -> tuple[float, float]:
        """Return the reference weights of one record: of the source, alpha/m, and of the target, (1 - alpha)/n."""
        return alpha / len(self.source), (1.0 - alpha) / len(self.target)

    def private_share(self, alpha: float) -> float:
        """Return the reference weight of one private record."""
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
        """Return the same within public bounds."""
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


TOLERANCE = 2.0**-26  # eta: how far a computed discrepancy may be from the exact one, in shares of the greatest loss
_GRID = 2.0**-40
"""Unit on which the estimate and its noise lie, in shares of the greatest loss, unless the noise is large."""


def greatest_loss(loss: Loss, radius: float, norm: float) -> float:
    """Return B: the squared loss' greatest value, or by how much logistic losses of one record can differ."""
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
) -> Greatest:
    """Return sup_w |L(target, w) - L(source, w)| over ||w|| <= ``radius``, certified; an upper bound for logistic loss.

    The domains are within public bounds, ||x|| <= ``norm`` and |y| <= 1. ``one_sided``: without the absolute value.
    ``around``: the *local* discrepancy, over ||w - around|| <= ``radius``: the same quadratic functions of w - around.

    *Squared loss.* The difference of two mean squared losses of w.x is quadratic in w, so both signs are trust-region
    problems, solved to their global greatest value. The paper solves them by DCA, which stops at points that are only
    locally greatest, and then has no sensitivity at all.

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
    found = max(
        (
            _greatest_around(
                first * upper[0] - second * lower[0], upper[1] - lower[1], upper[2] - lower[2], radius, around
            )
            for upper, lower in ((target, source), (source, target))[: 1 if one_sided else 2]
        ),
        key=lambda side: side.value,
    )
    if not found.gap <= TOLERANCE * greatest:
        raise ArithmeticError(f"a discrepancy has a gap of {found.gap:.3g}, wanted {TOLERANCE * greatest:.3g} at most")
    return found


def curvatures(scores: float) -> tuple[float, float]:
    """Return 1/8 and k: the tangent's and the chord's slope of h in s^2, on |s| <= ``scores``."""
    chord = (math.log1p(math.exp(-scores)) + scores / 2.0 - math.log(2.0)) / scores**2 if scores > 1e-4 else 0.0
    return 0.125, min(0.125, max(0.0, chord))


def sensitivity(domains: Domains, radius: float, norm: float, loss: Loss = "squared") -> float:
    """Return how far :func:`discrepancy` can move if one private record is replaced, rounding included.

    Every private record adds f_w(x, y)/k to the function that is maximized, k the size of the private side and f_w
    within an interval of public width B, whatever w: replacing it moves the greatest value by at most B/k, and a
    computed value within eta of that by B/k + 2 eta. Eta is the public :data:`TOLERANCE`, never the certificate itself,
    which depends on the records.
    """
    scores = radius * norm
    width = greatest = greatest_loss(loss, radius, norm)
    if loss == "logistic":
        # The range of -s/2 + c s^2 on |s| <= S, widest for c = 1/8: its least value is at s = 2, or at S before that.
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

    Gaussian noise of deviation sensitivity/mu on a public grid, then clipped (post-processing).
    Without a mu it is the exact value: not private.
    """
    value = discrepancy(domains, radius, norm, loss, one_sided=one_sided, around=around).value
    reach = reach_of(radius, around)
    moved = 0.0 if mu is None else sensitivity(domains, reach, norm, loss)
    return private_value(value, greatest_loss(loss, reach, norm), moved, mu, source)


def reach_of(radius: float, around: Floats | None) -> float:
    """Return a bound on ||w|| over the ball: public where its centre is."""
    return radius if around is None else (radius + float(np.linalg.norm(around))) * (1.0 + 2.0**-40)


def _greatest_around(
    quadratic: Floats, linear: Floats, constant: float, radius: float, around: Floats | None
) -> Greatest:
    if around is None:
        return greatest_on_ball(quadratic, linear, constant, radius)
    bent = quadratic @ around
    constant += float(around @ bent - 2.0 * (linear @ around))
    found = greatest_on_ball(quadratic, linear - bent, constant, radius)
    return found._replace(point=found.point + around)


def private_value(value: float, greatest: float, moved: float, mu: float | None, source: RandomSource) -> float:
    """Return a number that a replaced record moves by ``moved`` at most: mu-GDP, in [0, greatest]; None: as it is."""
    if mu is not None:
        unit, deviation = _value_noise(greatest, moved, mu)
        noise = float(whole_normals(up(deviation / unit), 1, source)[0])
        value = float(np.rint(value / unit) + noise) * unit
    return min(max(value, 0.0), greatest)


def _value_noise(greatest: float, moved: float, mu: float) -> tuple[float, float]:
    unit = max(_GRID * greatest, moved / mu * 2.0**-48)  # noise in units is exact in a double
    return unit, (moved + unit) / mu


def released_value(value: float, greatest: float, moved: float, mu: float | None, slack: float = 0.0) -> Released:
    """Return what :func:`private_value` gave with the deviation of its noise, and what rounding may have taken."""
    if mu is None:
        return Released(value, 0.0, slack)
    unit, deviation = _value_noise(greatest, moved, mu)
    return Released(value, up(deviation, 4.0), slack + 2.0 * unit)


def _moments(side: DomainSide, loss: Loss) -> tuple[Floats, Floats, float]:
    """Return the mean loss' quadratic, linear and constant part: w'Aw - 2 b'w + c."""
    features, responses = side.features, side.responses
    second = features.T @ features / len(side)
    first = features.T @ responses / len(side)
    if loss == "logistic":
        return second, first / 4.0, 0.0
    return second, first, float(responses @ responses) / len(side)


_ROUNDING = 2.0**-50  # what eigenvectors and sums lose for each coordinate, in shares of the terms' size


class Greatest(NamedTuple):
    """The greatest value is in [value - gap, value]: the dual bound; ``point``, shape (d,), reaches the lower end."""

    value: float
    gap: float
    point: Floats


def greatest_on_ball(quadratic: Floats, linear: Floats, constant: float, radius: float) -> Greatest:
    """Maximize ``w'Aw - 2 b'w + c`` over ``||w|| <= radius``, globally, with a certificate.

    The problem is not concave, and still has no gap to its dual (Boyd and Vandenberghe, Appendix B): in the basis of
    A's eigenvectors,

        g(nu) = c + nu R^2 + sum_i b_i^2 / (nu - a_i),   nu >= max(a_1, 0), a_1 the greatest eigenvalue,

    is an upper bound for every such nu, convex, and least where ||w(nu)|| = R, w(nu)_i = -b_i/(nu - a_i) (the secular
    equation); where even the least nu has a shorter w, that w is completed along the first eigenvector (the *hard
    case*, in which b has no part there), or is inside the ball already (nu = 0).

    A, shape (d, d), is symmetric, of any signs; b has shape (d,).
    """
    values, vectors = np.linalg.eigh(quadratic)
    b = vectors.T @ linear
    floor = max(float(values[-1]), 0.0)
    distances = floor - values  # all at least 0; the last is 0 where A has a positive eigenvalue
    excess = _excess(distances, b, radius)
    w = _point(distances, b, excess)
    if floor > 0.0:
        # The hard case, or what rounding leaves of the norm: completed where it costs nothing.
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
    return Greatest(bound + rounding, max(bound - reached, 0.0) + 2.0 * rounding, point)


def _point(distances: Floats, b: Floats, excess: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0.0, 0.0, -b / (distances + excess))


def _excess(distances: Floats, b: Floats, radius: float) -> float:
    """Return nu beyond its least value: the root of ||w|| = radius, or 0 where w is shorter from the start."""

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
