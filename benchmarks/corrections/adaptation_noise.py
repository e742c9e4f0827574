"""Bassily, Cortes, Mao and Mohri, Theorem 4.3: the constant of the noise, and what a step of the squared loss costs.

    python -m benchmarks.corrections.adaptation_noise

sigma_i = 2 s_i sqrt(T ln(3/delta))/eps makes T steps of two Gaussian releases mu-GDP with mu = eps/sqrt(2
ln(3/delta)), and rho-zCDP with rho = mu^2/2 = eps^2/(4 ln(3/delta)); the proof has eps^2/(16 ln(1/delta)). 60 digits.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np

from common.privacy.theorems.gaussian_dp import delta_of, joint_step, mu_allowed


def exact(mu: mp.mpf, epsilon: float) -> mp.mpf:
    """Return the delta of mu-GDP at epsilon."""
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


def printed_mu(epsilon: float, delta: float) -> mp.mpf:
    """Return the mu of the whole run with the printed noise."""
    return mp.mpf(epsilon) / mp.sqrt(2 * mp.log(3 / mp.mpf(delta)))


def by_itself(epsilon: float, delta: float) -> float:
    """Return the true delta at epsilon of the printed noise."""
    return float(exact(printed_mu(epsilon, delta), epsilon))


def for_the_squared_loss(epsilon: float, delta: float) -> float:
    """Return the delta at epsilon if a step has mu^2 = joint_step(a, a), of 2 a."""
    return float(exact(mp.sqrt(joint_step(0.5, 0.5)) * printed_mu(epsilon, delta), epsilon))


def beside_laplace(epsilon: float, delta: float) -> float:
    """Return the delta at epsilon of the discrepancy's Laplace noise (eps/2) beside the printed noise for eps/2."""
    half, mu = 0.5 * epsilon, float(printed_mu(0.5 * epsilon, delta))
    nodes, weights = np.polynomial.legendre.leggauss(80)
    x = half * (nodes + 1.0) / 2.0  # where |x - 1| - |x| is neither end, in units of the Laplace scale
    inside = sum(w * math.exp(-at) * delta_of(mu, epsilon - half + 2.0 * at) for at, w in zip(x, weights, strict=True))
    return 0.5 * (delta_of(mu, half) + 0.5 * half * inside + math.exp(-half) * delta_of(mu, 1.5 * epsilon))


def range_of(found: Callable[[float, float], float], delta: float) -> float:
    """Return up to which epsilon the true delta ``found`` is at most delta."""
    low, high = 1.0, 60.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if found(middle, delta) > delta else (middle, high)
    return high


def main() -> None:
    """Print the true delta, the ranges, the constant that the proof needs, and the joint bound."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    mp.mp.dps = 60
    for epsilon, delta in ((10.0, 0.01), (36.0, 0.01)):
        true = exact(printed_mu(epsilon, delta), epsilon)
        assert epsilon <= 8 * math.log(1 / delta)
        assert true > delta
        print(f"({epsilon:g}, {delta:g}) is in Theorem 4.3's range; its noise has delta = {float(true):.4f}")
    for delta in (1e-2, 1e-4, 1e-6):
        log, log_three = math.log(1 / delta), math.log(3 / delta)
        claimed, zcdp = 8 * log, 4 * log_three * (1 - math.sqrt(log / log_three))
        alone = range_of(by_itself, delta)
        squared, both = range_of(for_the_squared_loss, delta), range_of(beside_laplace, delta)
        print(
            f"delta = {delta:5.0e}: claimed to eps = {claimed:.1f}, proven by zCDP to {zcdp:.2f}, true to {alone:.1f};"
        )
        print(
            f"  by the joint bound of the squared loss to {squared:.1f}; as eps/2 beside the discrepancy to {both:.1f}"
        )
        # sigma_i = 4 s_i sqrt(T ln(1/delta))/eps is what the proof computes with: rho = eps^2/(16 ln(1/delta)).
        for epsilon in (0.1, 1.0, 10.0, claimed):
            rho = epsilon**2 / (16 * log)
            assert rho + 2 * math.sqrt(rho * log) <= epsilon * (1 + 1e-12)
            assert exact(mp.sqrt(2 * rho), epsilon) < delta
    mu = mu_allowed(1.0, 1e-6)
    ours, theirs, proven = math.sqrt(2.0) / mu, 2 * math.sqrt(math.log(3e6)), 4 * math.sqrt(math.log(1e6))
    assert abs(exact(mp.mpf(mu), 1.0) / mp.mpf("1e-6") - 1) < 1e-9
    print(f"sigma/(s sqrt T) at (1, 1e-6): printed {theirs:.3f}, by the proof {proven:.3f}, exact {ours:.3f}")
    q = np.linspace(0.0, 1.0, 1_000_001)
    searched = float(np.max((1 + q) ** 2 * (0.25 + (1 - q) ** 2)))
    assert abs(searched - joint_step(1.0, 1.0)) < 1e-9
    print(f"squared loss, a = b: a step has mu^2 = {searched:.4f} a (2 a by adding both sensitivities)")


if __name__ == "__main__":
    main()
