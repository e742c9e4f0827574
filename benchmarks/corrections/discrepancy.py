"""Bassily, Cortes, Mao and Mohri, Section 4: the discrepancy by DCA has no sensitivity B/n; a global maximum has.

    python -m benchmarks.corrections.discrepancy

d = 1, w in [-1, 1], x in {0, 1}, y in [-1, 1], B = 4: L_Priv(w) - L_Pub(w) = A w^2 - 2 b w + c. The maximum of a
convex quadratic over an interval is at an end; DCA goes from w to the maximum of the tangent at w, which is a local
one.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from common.core.arrays import Floats

N, B = 1000, 4.0


def quadratic(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Return A, b and c of the mean of (w x - y)^2."""
    return float(np.mean(x * x)), float(np.mean(x * y)), float(np.mean(y * y))


def by_dca(form: tuple[float, float, float], start: float) -> float:
    """Return the value where DCA for max A w^2 - 2 b w + c over [-1, 1] stops."""
    a, b, c = form
    w = start
    for _ in range(100):
        slope = 2.0 * a * w - 2.0 * b
        w, before = (w if slope == 0.0 else float(np.sign(slope))), w
        if w == before:
            break
    return a * w * w - 2.0 * b * w + c


def exactly(form: tuple[float, float, float]) -> float:
    """Return the maximum over [-1, 1] of a convex quadratic: it is at one of the ends."""
    a, b, c = form
    return max(a - 2.0 * b + c, a + 2.0 * b + c)


def main() -> None:
    """Change one record of 1000 and print both discrepancies."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    # The public sample has x = 0 and y = 0: it adds nothing. Half of the private records have y = 1, half y = 0.
    x, y = np.ones(N), np.repeat([1.0, 0.0], N // 2)
    found = {}
    for name, last in (("y_n = 1/2", 0.5), ("y_n = -1/2", -0.5)):
        y[-1] = last
        form = quadratic(x, y)
        found[name] = by_dca(form, 0.5), exactly(form)
        print(f"{name:10s}: b = {form[1]:.4f}; DCA stops at {found[name][0]:.4f}, the maximum is {found[name][1]:.4f}")
    (dca, best), (dca_too, best_too) = found.values()
    print(
        f"claimed sensitivity B/n = {B / N:g}; "
        f"DCA's value moves by {abs(dca - dca_too):.4f}, the maximum by {abs(best - best_too):.5f}"
    )
    assert abs(dca - dca_too) > 1.9
    assert abs(best - best_too) <= B / N
    worst = 0.0
    draws = np.random.default_rng(1)
    for _ in range(2000):
        x, y = draws.choice([0.0, 1.0], N), draws.uniform(-1.0, 1.0, N)
        before = exactly(quadratic(x, y))
        for x[0], y[0] in itertools.product((0.0, 1.0), (-1.0, 1.0)):
            worst = max(worst, abs(exactly(quadratic(x, y)) - before))
    assert worst <= B / N
    print(f"8000 random neighbours: the maximum moves by at most {worst:.5f}")


if __name__ == "__main__":
    main()
