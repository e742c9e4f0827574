"""Kohen and Sheffet, Section 2: where N(b, 2 ln(2/delta)/eps^2) stops being (eps, delta)-DP.

    python -m benchmarks.corrections.gaussian_answers

The exact delta of Gaussian noise on a value in [0, width] is Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), mu =
width/sigma (Balle and Wang 2018, Theorem 8; necessary and sufficient); here with 60 digits.
"""

from __future__ import annotations

import argparse

import mpmath as mp

from common.privacy.theorems.gaussian_dp import delta_of


def exact(epsilon: float, delta: float, width: float = 1.0) -> mp.mpf:
    """Return the true delta of the printed noise on answers in [0, width]."""
    epsilon = mp.mpf(epsilon)
    mu = width * epsilon / mp.sqrt(2 * mp.log(2 / mp.mpf(delta)))
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


def first_failure(delta: float) -> float:
    """Return the least epsilon from which on the printed noise has more than delta; it holds below."""
    low, high = mp.mpf(1), mp.mpf(30)
    assert exact(low, delta) < delta < exact(high, delta)
    while high - low > mp.mpf(10) ** -9:
        middle = (low + high) / 2
        low, high = (low, middle) if exact(middle, delta) > delta else (middle, high)
    assert all(exact(low * step / 200, delta) < delta for step in range(1, 200))
    return float(high)


def main() -> None:
    """Print the first failures, and what answers beyond [0, 1] do."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    mp.mp.dps = 60
    for delta in (1e-3, 1e-4, 1e-6, 1e-9):
        print(f"delta = {delta:5.0e}: (eps, delta)-DP up to eps = {first_failure(delta):.3f}")
    print("losses in [0, LD], eps = 1, delta = 1e-6 (Algorithm 4 as printed):")
    for width in (1.0, 2.0, 4.0, 8.0):
        true = exact(1.0, 1e-6, width)
        mu = width / float(mp.sqrt(2 * mp.log(2e6)))
        assert (true > 1e-6) == (width > 1.0)
        assert abs(delta_of(mu, 1.0) / true - 1) < 1e-9
        print(f"  LD = {width:g}: true delta = {float(true):.2e}")


if __name__ == "__main__":
    main()
