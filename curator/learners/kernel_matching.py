"""Kernel mean matching (Huang, Smola, Gretton, Borgwardt and Schoelkopf 2006): source weights from features alone."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist

from common.core.arrays import Floats, Singles

MAX_WEIGHT = 1000.0
"""B of the paper of kernel mean matching."""
_ITERATIONS = 400
_TOLERANCE = 1e-6


class KernelMeanMatching:
    """The weights beta of m source rows whose kernel mean is closest to the target's.

    ::

        minimize  1/2 beta' K beta - kappa' beta,   0 <= beta_i <= B,  |mean(beta) - 1| <= (sqrt(m) - 1) / sqrt(m)
        K_ij = k(x_i, x_j),   kappa_i = (m / n) sum_j k(x_i, z_j),   k(x, z) = exp(-||x - z||^2 / (2 width^2))

    by accelerated projected gradient, restarted where the objective rises. The kernel matrix belongs to the source and
    is made once; its width is the median distance of source rows.

    Args:
        source: Shape (m, d). Keeps 4 m^2 bytes.
    """

    def __init__(self, source: Floats) -> None:
        self._source = source
        sample = source[:: max(1, len(source) // 1000)]
        self.width = float(np.median(pdist(sample))) or 1.0
        self._kernel = self._against(source)
        self._steepest = self._largest_eigenvalue()

    def weights(self, target: Floats) -> Floats:
        """Return beta for target features of shape (n, d): shape (m,), of mean about 1."""
        count = len(self._source)
        slope = (count * self._against(target).mean(axis=1)).astype(np.float32)
        here = ahead = np.ones(count, dtype=np.float32)
        momentum, value = 1.0, np.inf
        for _ in range(_ITERATIONS):
            gradient = self._kernel @ ahead - slope
            new = self._project(ahead - gradient / np.float32(self._steepest))
            found = float(0.5 * new @ (self._kernel @ new) - slope @ new)
            if found > value:
                ahead, momentum, value = here, 1.0, np.inf
                continue
            done = value - found <= _TOLERANCE * abs(found)
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = new + np.float32((momentum - 1.0) / following) * (new - here)
            here, momentum, value = new, following, found
            if done:
                break
        return here.astype(np.float64)

    def _against(self, others: Floats) -> Singles:
        squares = cdist(self._source, others, "sqeuclidean")
        np.exp(squares / (-2.0 * self.width**2), out=squares)
        return np.asarray(squares, dtype=np.float32)

    def _largest_eigenvalue(self) -> float:
        vector = np.ones(len(self._source), dtype=np.float32)
        for _ in range(20):
            vector /= np.linalg.norm(vector)
            vector = self._kernel @ vector
        return 1.01 * float(np.linalg.norm(vector))

    def _project(self, point: Singles) -> Singles:
        """Return the nearest point of the box whose mean is within the slab, by bisection on a common shift."""
        count = len(point)
        slack = (np.sqrt(count) - 1.0) / np.sqrt(count)
        inside = np.clip(point, 0.0, MAX_WEIGHT)
        mean = float(inside.mean())
        if abs(mean - 1.0) <= slack:
            return inside
        wanted = 1.0 + slack if mean > 1.0 else 1.0 - slack
        low, high = float(-point.max()), float(MAX_WEIGHT - point.min())
        for _ in range(60):
            shift = 0.5 * (low + high)
            if float(np.clip(point + np.float32(shift), 0.0, MAX_WEIGHT).mean()) < wanted:
                low = shift
            else:
                high = shift
        return np.asarray(np.clip(point + np.float32(high), 0.0, MAX_WEIGHT))
