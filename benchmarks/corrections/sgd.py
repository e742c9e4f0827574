"""Kohen and Sheffet, Algorithms 3 and 4: the SGD step, R's second term, and Appendix D's n.

    python -m benchmarks.corrections.sgd

With steps c/sqrt(r) projected SGD errs in expectation by at most (D^2/(2c) + G^2 c)/sqrt(R), G^2 = L^2 + sigma^2 d;
that is 1.5 D G/sqrt(R), the paper's first term, at c = D/G. Its second term LD sqrt(8 ln(2/beta)/R) is alpha/2 at R =
32 L^2 D^2 ln(2/beta)/alpha^2.
"""

from __future__ import annotations

import argparse
import math

from common.statistics import formulas


def main() -> None:
    """Print how much the printed step loses, and both sizes."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    print("step D/(sigma sqrt r) against D/(sqrt(L^2 + sigma^2 d) sqrt r), L = D = 1:")
    for dimension, noise in ((8, math.sqrt(20.0)), (200, math.sqrt(20.0)), (200, 0.1)):
        second_moment = 1.0 + noise**2 * dimension
        printed, meant = (1.0 / (2.0 * c) + second_moment * c for c in (1.0 / noise, 1.0 / math.sqrt(second_moment)))
        assert math.isclose(meant, 1.5 * math.sqrt(second_moment))
        assert printed > meant
        print(
            f"  d = {dimension:3d}, sigma = {noise:.2f} L: the bound is {printed / meant:5.2f} times, "
            f"and R {(printed / meant) ** 2:6.1f} times as large"
        )
    alpha, beta = 0.08, 0.05
    for name, factor in (("printed", 8.0), ("meant", 32.0)):
        steps = factor * math.log(2.0 / beta) / alpha**2
        term = math.sqrt(8.0 * math.log(2.0 / beta) / steps)
        print(f"R's second term, {name} factor {factor:g}: LD sqrt(8 ln(2/beta)/R) = {term / alpha:.2f} alpha")
        assert math.isclose(term, alpha / 2) == (factor == 32.0)
    kappa = 0.08 / (4.0 * 1.35)
    n = formulas.paper_n_sgd(50_000_000, 1000, kappa, 0.5)
    y = 52.0 * 50e6 * 1000 / (8.0 * kappa**2 * 0.5)
    assert n == math.ceil(math.sqrt(y * math.log(y))) == 324_814_045
    print(f"Appendix D: n = sqrt(Y ln Y) = {n:,} for Y = {y:.4e} (printed: 324,700,000)")
    # The circle: sigma(n) -> R(sigma) -> n(R); iterate to its fixed point (d = 8, L = .1, D = 1, T = 1000).
    n = 10_000_000
    for _ in range(60):
        noise = formulas.paper_noise(0.5, 1e-4, kappa * n)
        n = formulas.paper_n_sgd(formulas.paper_steps(alpha, beta, 0.1, noise, 1.0, 8), 1000, kappa, 0.5)
    steps = formulas.paper_steps(alpha, beta, 0.1, formulas.paper_noise(0.5, 1e-4, kappa * n), 1.0, 8)
    assert n == formulas.paper_n_sgd(steps, 1000, kappa, 0.5)
    print(f"fixed point of sigma -> R -> n -> sigma there: sigma = {noise:.3f} L, R = {steps:,}, n = {n:,}")


if __name__ == "__main__":
    main()
