"""Weights of source rows by the squared loss: discrepancy minimization, kernel mean matching, best-effort adaptation.

*Discrepancy minimization* (Cortes and Mohri 2014) finds weights whose second moment is closest to the target's. For the
squared loss and linear predictors of norm at most Lambda, the (unlabelled) discrepancy of a weighted source and a
target is 4 Lambda^2 times the spectral norm of the difference of their second moments. So it solves

    minimize over the simplex  || M_target - sum_i q_i x_i x_i' ||_2

a semidefinite program. Here the norm is smoothed, s ln tr(e^(D/s) + e^(-D/s)) >= ||D||_2 (Nesterov 2007), and
minimized by accelerated mirror descent with the entropy for decreasing s. Each gradient is also a dual point, whose
value is a lower bound: it shows how far from the optimum the result can be.

*SBest, best-effort adaptation* (Awasthi, Cortes and Mohri 2024) solves the non-private problem (5) alternately in w, q.

    minimize  sum_i q_i (loss_i(w) + d 1{i <= m}) + lambda_1 (1 - sum_i q_i) + lambda_2 ||q||_2 + lambda_inf ||q||_inf
    over ||w|| <= Lambda and 0 <= q_i <= p_i,   p = alpha / m on the source, (1 - alpha) / n on the target

Each turn is solved exactly: w by a weighted fit, q by two nested one-dimensional convex problems. The objective never
increases. It is convex in w and in q but not jointly, so the result is a point that no single turn improves. The
authors' code is not public; this code follows problem (3) of the paper and its Section 3.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from common.core.arrays import Floats, Singles
from common.numerics.bisection import between

_SMOOTHINGS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""Values of s, as shares of the norm at equal weights."""
_CLOSE = 5e-3
"""Duality gap at which to stop, as a share of the same norm."""


@dataclass(frozen=True, eq=False)
class SourceWeights:
    """Weights of source rows, with the value that they reach and a lower bound.

    Attributes:
        shares: q, shape (m,), a distribution.
        norm: Spectral norm of the difference of second moments at q.
        least: A lower bound on that norm over all distributions.
    """

    shares: Floats
    norm: float
    least: float


def match(source: Floats, target: Floats, iterations: int = 60) -> SourceWeights:
    """Match second moments of features, shapes (m, d) and (n, d).

    Args:
        iterations: Maximum number for each value of s.
    """
    return match_moment(source, target.T @ target / len(target), iterations)


def match_moment(source: Floats, moment: Floats, iterations: int = 60) -> SourceWeights:
    """Match the source's second moment to a given one, shape (d, d), symmetric."""
    return _Problem(source, moment).solve(iterations)


class _Problem:
    def __init__(self, rows: Floats, moment: Floats) -> None:
        self._rows, self._moment = rows, moment
        self.best = np.full(len(rows), 1.0 / len(rows))
        self.start = self.norm = self._norm(self.best)
        self.least = 0.0

    def solve(self, iterations: int) -> SourceWeights:
        for share in _SMOOTHINGS:
            self._descend(share * self.start, iterations)
            if self._close():
                break
        return SourceWeights(self.best, self.norm, self.least)

    def _close(self) -> bool:
        return self.norm - self.least <= _CLOSE * self.start

    def _descend(self, smoothing: float, iterations: int) -> None:
        """Run Tseng's accelerated mirror descent (2008, Algorithm 1) from the best point, with backtracking steps."""
        iterate, log_mirror = self.best, np.log(np.maximum(self.best, 1e-30))
        mirror, pace, steepness = iterate, 1.0, 0.05 / smoothing
        for _ in range(iterations):
            ahead = (1.0 - pace) * iterate + pace * mirror
            value, gradient = self._linear(ahead, smoothing)
            while True:
                log_shares = log_mirror - gradient / (pace * steepness)
                log_shares -= logsumexp(log_shares)
                new = (1.0 - pace) * iterate + pace * softmax(log_shares)
                step = new - ahead
                allowed = value + gradient @ step + 0.5 * steepness * float(np.abs(step).sum()) ** 2
                if smooth_norm(self._difference(new), smoothing)[0] <= allowed + 1e-12:
                    break
                steepness *= 2.0
            iterate, log_mirror, mirror = new, log_shares, softmax(log_shares)
            pace = 2.0 / (1.0 + np.sqrt(1.0 + 4.0 / pace**2))
            steepness *= 0.9
            norm = self._norm(iterate)
            if norm < self.norm:
                self.norm, self.best = norm, iterate
            if self._close():
                return

    def _linear(self, shares: Floats, smoothing: float) -> tuple[float, Floats]:
        """Return the smoothed norm and its gradient in q; update the lower bound with the dual point."""
        value, dual = smooth_norm(self._difference(shares), smoothing)
        gradient = -np.einsum("ij,ij->i", self._rows @ dual, self._rows)
        self.least = max(self.least, float(np.sum(dual * self._moment) + gradient.min()))
        return value, gradient

    def _norm(self, shares: Floats) -> float:
        return float(np.abs(np.linalg.eigvalsh(self._difference(shares))).max())

    def _difference(self, shares: Floats) -> Floats:
        return np.asarray(self._moment - (self._rows * shares[:, None]).T @ self._rows)


def smooth_norm(difference: Floats, scale: float) -> tuple[float, Floats]:
    """Return the smoothed norm and its gradient, a symmetric matrix of nuclear norm at most 1."""
    values, vectors = np.linalg.eigh(difference)
    exponents = np.concatenate([values, -values]) / scale
    total = float(logsumexp(exponents))
    powers, count = np.exp(exponents - total), len(values)
    return scale * total, np.asarray((vectors * (powers[:count] - powers[count:])) @ vectors.T)


MAX_WEIGHT = 1000.0
"""B of the paper on kernel mean matching."""
_ITERATIONS = 400
_PAIRS = 1 << 22  # kernel values of source and target rows that are held at a time
_TOLERANCE = 1e-6


class KernelMeanMatching:
    """The weights beta of m source rows whose kernel mean is closest to the target's.

    ::

        minimize  1/2 beta' K beta - kappa' beta,   0 <= beta_i <= B,  |mean(beta) - 1| <= (sqrt(m) - 1) / sqrt(m)
        K_ij = k(x_i, x_j),   kappa_i = (m / n) sum_j k(x_i, z_j),   k(x, z) = exp(-||x - z||^2 / (2 width^2))

    It uses accelerated projected gradient descent, restarted when the objective increases. The kernel matrix depends
    on the source only and is computed once; its width is the median distance of source rows.

    Args:
        source: Shape (m, d). The object keeps 4 m^2 bytes.
    """

    def __init__(self, source: Floats) -> None:
        from scipy.spatial.distance import pdist  # imported here, as it is slow to load and rarely needed

        self._source = source
        sample = source[:: max(1, len(source) // 1000)]
        self.width = float(np.median(pdist(sample))) or 1.0
        self._kernel = self._kernels(source)
        self._steepest = self._largest_eigenvalue()

    def weights(self, target: Floats) -> Floats:
        """Return beta, shape (m,) with mean about 1, for target features of shape (n, d)."""
        count = len(self._source)
        rows = max(1, _PAIRS // len(target))
        means = [self._kernels(target, slice(first, first + rows)).mean(axis=1) for first in range(0, count, rows)]
        slope = (count * np.concatenate(means)).astype(np.float32)
        iterate = ahead = np.ones(count, dtype=np.float32)
        momentum, value = 1.0, np.inf
        for _ in range(_ITERATIONS):
            gradient = self._kernel @ ahead - slope
            new = self._project(ahead - gradient / np.float32(self._steepest))
            loss = float(0.5 * new @ (self._kernel @ new) - slope @ new)
            if loss > value:
                ahead, momentum, value = iterate, 1.0, np.inf
                continue
            converged = value - loss <= _TOLERANCE * abs(loss)
            next_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = new + np.float32((momentum - 1.0) / next_momentum) * (new - iterate)
            iterate, momentum, value = new, next_momentum, loss
            if converged:
                break
        return iterate.astype(np.float64)

    def _kernels(self, points: Floats, rows: slice = slice(None)) -> Singles:
        from scipy.spatial.distance import cdist

        squares = cdist(self._source[rows], points, "sqeuclidean")
        np.exp(squares / (-2.0 * self.width**2), out=squares)
        return np.asarray(squares, dtype=np.float32)

    def _largest_eigenvalue(self) -> float:
        vector = np.ones(len(self._source), dtype=np.float32)
        for _ in range(20):
            vector /= np.linalg.norm(vector)
            vector = self._kernel @ vector
        return 1.01 * float(np.linalg.norm(vector))

    def _project(self, point: Singles) -> Singles:
        """Return the nearest point in the box with a mean within the bounds, by bisection on a common shift."""
        count = len(point)
        slack = (np.sqrt(count) - 1.0) / np.sqrt(count)
        inside = np.clip(point, 0.0, MAX_WEIGHT)
        mean = float(inside.mean())
        if abs(mean - 1.0) <= slack:
            return inside
        target = 1.0 + slack if mean > 1.0 else 1.0 - slack
        low, high = float(-point.max()), float(MAX_WEIGHT - point.min())
        for _ in range(60):
            shift = 0.5 * (low + high)
            if float(np.clip(point + np.float32(shift), 0.0, MAX_WEIGHT).mean()) < target:
                low = shift
            else:
                high = shift
        return np.asarray(np.clip(point + np.float32(high), 0.0, MAX_WEIGHT))


_TURNS = 20


@dataclass(frozen=True)
class Penalties:
    """Non-negative weights of the three norms: lambda_1, lambda_2, lambda_inf."""

    one: float
    two: float
    most: float


@dataclass(frozen=True, eq=False)
class AlternationResult:
    """The result of the alternation: weights w, shares q, and the objective after each turn."""

    weights: Floats
    shares: Floats
    objectives: tuple[float, ...]


def alternate(
    fit: Callable[[Floats, Floats | None], Floats],
    losses: Callable[[Floats], Floats],
    extra: Floats,
    caps: Floats,
    penalties: Penalties,
) -> AlternationResult:
    """Minimize alternately in w and q until the objective falls by less than one part in 10^6, in at most 20 turns.

    Args:
        fit: Returns the w with the least q-weighted loss, given q and the last w (None at first).
        losses: Returns each row's loss at w, shape (m + n,).
        extra: The discrepancy on source rows, 0 on target rows.
        caps: p, shape (m + n,): upper bounds of q, and its start.
    """
    shares, weights = caps, fit(caps, None)
    objectives: list[float] = []
    while True:
        costs = losses(weights) + extra - penalties.one
        shares = best_shares(costs, caps, penalties)
        objectives.append(objective(costs, shares, penalties))
        settled = len(objectives) > 1 and objectives[-2] - objectives[-1] <= 1e-6 * abs(objectives[-2])
        if settled or len(objectives) == _TURNS:
            return AlternationResult(weights, shares, tuple(objectives))
        weights = fit(shares, weights)


def objective(costs: Floats, shares: Floats, penalties: Penalties) -> float:
    """Return the objective, including its constant, from c_i = loss_i + d 1{i <= m} - lambda_1."""
    norms = penalties.two * float(np.linalg.norm(shares)) + penalties.most * float(shares.max(initial=0.0))
    return float(costs @ shares) + penalties.one + norms


def best_shares(costs: Floats, caps: Floats, penalties: Penalties) -> Floats:
    """Return the q that minimizes c'q + lambda_2 ||q||_2 + lambda_inf ||q||_inf with 0 <= q <= p.

    For a fixed largest share t it is a problem in the box min(p, t); the minimum is convex in t.
    """
    if penalties.most == 0.0:
        return _box_shares(costs, caps, penalties.two)

    def value(top: float) -> float:
        return objective(costs, _box_shares(costs, np.minimum(caps, top), penalties.two), penalties)

    from scipy.optimize import minimize_scalar  # imported here: it takes a fifth of a second

    highest = float(caps.max())
    optimum = minimize_scalar(value, bounds=(0.0, highest), method="bounded", options={"xatol": 1e-6 * highest})
    tops = (0.0, float(optimum.x), highest)
    return _box_shares(costs, np.minimum(caps, min(tops, key=value)), penalties.two)


def _box_shares(costs: Floats, caps: Floats, two: float) -> Floats:
    """Return the q in the box that minimizes c'q + two ||q||_2: q_i = clip(-c_i s, 0, p_i) with two s = ||q||, or 0.

    The ratio ||q(s)|| / s decreases in s, so the root is found by bisection.
    """
    gains = np.maximum(-costs, 0.0)
    if two == 0.0:
        return np.where(gains > 0.0, caps, 0.0)
    if float(np.linalg.norm(gains[caps > 0.0])) <= two:
        return np.zeros_like(caps)

    def is_root_below(scale: float) -> bool:
        return float(np.linalg.norm(np.minimum(gains * scale, caps))) <= two * scale

    highest = float(np.linalg.norm(caps)) / two * (1.0 + 1e-9) + 1e-300
    return np.minimum(gains * between(highest, 0.0, is_root_below, 2.0**-50), caps)
