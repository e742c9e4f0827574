"""What noisy counts of votes cost: GNMax, the class with most votes after Gaussian noise on every count."""

from __future__ import annotations

import math

from common.privacy.rounding import down, up
from common.privacy.theorems.gaussian_dp import mu_allowed

MIN_NOISE, MAX_NOISE = 1e-3, 1e6
"""What sigma may be, in votes: less hides nothing, and more than anybody has teachers is no answer."""


def answer_mu(sigma: float, touched: int = 1) -> float:
    """Return mu of one answer, which is mu-GDP: sqrt(2) touched / sigma, rounded up.

    A teacher that changes its vote lowers one count by 1 and raises another: L2 sensitivity sqrt(2), whatever the
    number of classes; ``touched`` teachers, touched sqrt(2). The class is post-processing of the Gaussian mechanism
    (Dong, Roth and Su 2022, Theorem 1). m answers, chosen as adaptively as one likes, are exactly sqrt(m) mu-GDP
    (Corollary 2).
    """
    return up(math.sqrt(2.0) * touched / sigma)


def answers_sigma(queries: int, epsilon: float, delta: float, touched: int = 1) -> float:
    """Return the least sigma, in votes, at which m answers are (epsilon, delta)-DP: sqrt(2 m) touched / mu*.

    Rounded up, and at least :data:`MIN_NOISE`. At (1, 1e-6), 1000 answers need sigma = 189.

    Raises
    ------
    BadInput
        If epsilon or delta is out of range.
    """
    return max(MIN_NOISE, up(math.sqrt(2.0 * queries) * touched / down(mu_allowed(epsilon, delta)), 16.0))


def flips(agreement: float, chunks: int, sigma: float, classes: int = 2) -> float:
    """Return the chance that an answer is not what most teachers say, if this share a of k agree; at most.

    ::

        Phi(-(2 a - 1) k / (sqrt(2) sigma)) + (C - 2) Phi(-a k / (sqrt(2) sigma))

    With two classes it is exact. With C it is a union bound for a >= 1/2, whatever the others say: each summand is
    convex in how many of them say that class, so their sum is greatest if all say the same.
    """

    def beaten(by: float) -> float:
        return 0.5 * math.erfc(by * chunks / (2.0 * sigma))

    return min(1.0, beaten(2.0 * agreement - 1.0) + (classes - 2) * beaten(agreement))
