"""Discrepancy minimization (Cortes and Mohri 2014): source weights whose second moment is closest to the target's.

For the squared loss and linear predictors of norm at most Lambda, the (unlabelled) discrepancy of a weighted source
and a target is 4 Lambda^2 times the spectral norm of the difference of their second moments:

    minimize over the simplex  || M_target - sum_i q_i x_i x_i' ||_2

a semidefinite program. Here the norm is smoothed, s ln tr(e^(D/s) + e^(-D/s)) >= ||D||_2 (Nesterov 2007), and
minimized by accelerated mirror descent with the entropy, s falling. Each gradient is also a dual point: its value is a
lower bound, which says how far from the optimum the result can be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from common.core.arrays import Floats

_SMOOTHINGS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""s as shares of the norm at equal weights."""
_CLOSE = 5e-3
"""Gap at which to stop, as a share of the same norm."""


@dataclass(frozen=True, eq=False)
class Matched:
    """Weights of source rows and what is known of them.

    Attributes:
        shares: q, shape (m,), a distribution.
        norm: Of the difference of second moments at q.
        least: A lower bound on that norm over all distributions.
    """

    shares: Floats
    norm: float
    least: float


def match(source: Floats, target: Floats, iterations: int = 60) -> Matched:
    """Match second moments of features, shapes (m, d) and (n, d).

    Args:
        iterations: At each smoothing, at most.
    """
    return match_moment(source, target.T @ target / len(target), iterations)


def match_moment(source: Floats, wanted: Floats, iterations: int = 60) -> Matched:
    """Match the source's second moment to a given one, shape (d, d), symmetric."""
    return _Problem(source, wanted).solve(iterations)


class _Problem:
    def __init__(self, rows: Floats, wanted: Floats) -> None:
        self._rows, self._wanted = rows, wanted
        self.best = np.full(len(rows), 1.0 / len(rows))
        self.start = self.norm = self._norm(self.best)
        self.least = 0.0

    def solve(self, iterations: int) -> Matched:
        for share in _SMOOTHINGS:
            self._descend(share * self.start, iterations)
            if self._close():
                break
        return Matched(self.best, self.norm, self.least)

    def _close(self) -> bool:
        return self.norm - self.least <= _CLOSE * self.start

    def _descend(self, smoothing: float, iterations: int) -> None:
        """Tseng's accelerated mirror descent (2008, Algorithm 1) from the best point, with a step by backtracking."""
        here, log_mirror = self.best, np.log(np.maximum(self.best, 1e-30))
        mirror, pace, steepness = here, 1.0, 0.05 / smoothing
        for _ in range(iterations):
            ahead = (1.0 - pace) * here + pace * mirror
            value, gradient = self._linear(ahead, smoothing)
            while True:
                moved = log_mirror - gradient / (pace * steepness)
                moved -= logsumexp(moved)
                new = (1.0 - pace) * here + pace * softmax(moved)
                step = new - ahead
                allowed = value + gradient @ step + 0.5 * steepness * float(np.abs(step).sum()) ** 2
                if smooth_norm(self._difference(new), smoothing)[0] <= allowed + 1e-12:
                    break
                steepness *= 2.0
            here, log_mirror, mirror = new, moved, softmax(moved)
            pace = 2.0 / (1.0 + np.sqrt(1.0 + 4.0 / pace**2))
            steepness *= 0.9
            norm = self._norm(here)
            if norm < self.norm:
                self.norm, self.best = norm, here
            if self._close():
                return

    def _linear(self, shares: Floats, smoothing: float) -> tuple[float, Floats]:
        """Return the smoothed norm and its gradient in q; keep the dual point's lower bound."""
        value, dual = smooth_norm(self._difference(shares), smoothing)
        gradient = -np.einsum("ij,ij->i", self._rows @ dual, self._rows)
        self.least = max(self.least, float(np.sum(dual * self._wanted) + gradient.min()))
        return value, gradient

    def _norm(self, shares: Floats) -> float:
        return float(np.abs(np.linalg.eigvalsh(self._difference(shares))).max())

    def _difference(self, shares: Floats) -> Floats:
        return np.asarray(self._wanted - (self._rows * shares[:, None]).T @ self._rows)


def smooth_norm(difference: Floats, scale: float) -> tuple[float, Floats]:
    """Return the smoothed norm and its gradient, a symmetric matrix of nuclear norm at most 1."""
    values, vectors = np.linalg.eigh(difference)
    both = np.concatenate([values, -values]) / scale
    total = float(logsumexp(both))
    powers, count = np.exp(both - total), len(values)
    return scale * total, np.asarray((vectors * (powers[:count] - powers[count:])) @ vectors.T)
