"""Kohen and Sheffet, Theorem A.3: (13 s^2 rho, ln(1/s)/(4 rho))-tCDP holds with room; and what the ball is needed for.

    python -m benchmarks.corrections.theorem_a3

One step: N(g, sigma^2 I) for the gradient g of one draw, ||g|| <= L, u = 2L/sigma, rho = u^2/2. The proven upper
bound of common.privacy.theorems.renyi is compared with 13 s^2 rho lambda at integer orders lambda up to ln(1/s)/(4
rho). Then its closed form, which needs gradients in a ball of diameter u, with three gradients at distance u from
each other.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from common.core.arrays import Floats
from common.privacy.theorems.renyi import closed_form, profile, step_rdp


def second_moment(s: float, means: Floats) -> float:
    """Return E_Q[((P - Q)/Q)^2] of P = (1-s) A + s B, Q = (1-s) A + s C, unit Gaussians in the plane, by quadrature."""
    axis = np.linspace(-12.0, 12.0, 801)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    first, b, c = (np.exp(-0.5 * ((x - p) ** 2 + (y - q) ** 2)) / (2.0 * math.pi) for p, q in means)
    return float(np.sum((s * (b - c)) ** 2 / ((1.0 - s) * first + s * c))) * float(axis[1] - axis[0]) ** 2


def main() -> None:
    """Print the largest ratio to Theorem A.3, for small s and for s beyond 1/10, and the equilateral triangle."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    for name, samplings in (("s <= 1/10", (1e-8, 1e-4, 1e-2, 0.05, 0.1)), ("1/10 < s < 1/4", (0.15, 0.2, 0.249))):
        worst, tried = 0.0, 0
        for s in samplings:
            for rho in np.geomspace(1e-4, 0.1, 13):
                if math.log(1.0 / s) < 3.0 * rho * (2.0 + math.log(1.0 / rho)):
                    continue
                last = int(math.log(1.0 / s) / (4.0 * rho))
                for order in {2, 3, 4, 8, 16, 64, 256, last // 2, last} & set(range(2, last + 1)):
                    ratio = step_rdp(order, s, math.sqrt(2.0 * rho)) / (13.0 * s * s * rho * order)
                    worst, tried = max(worst, ratio), tried + 1
        assert worst < 1.0
        print(f"{name}: our proven bound is at most {worst:.3f} of 13 s^2 rho lambda ({tried} settings)")
    for u in (0.5, 1.0, 2.0):
        corners = (
            u / math.sqrt(3.0) * np.array([[math.cos(t), math.sin(t)] for t in 2.0 * math.pi / 3.0 * np.arange(3)])
        )
        line, s = np.array([[0.0, 0.0], [u / 2.0, 0.0], [-u / 2.0, 0.0]]), 1e-7
        triangle, inside = (math.log1p(second_moment(s, means)) for means in (corners, line))
        ball = closed_form(2, s, u)
        # By hand, s -> 0: e^{|b|^2} + e^{|c|^2} - 2 e^{<b,c>} with b, c relative to A is 2 e^{u^2} - 2 e^{u^2/2}.
        hand = 2.0 * (math.exp(u * u) - math.exp(u * u / 2.0)) / math.expm1(u * u)
        assert inside <= ball < triangle <= profile(2, s, u)
        assert abs(triangle / ball - hand) < 1e-2
        print(f"u = {u:g}: a triangle of side u has {triangle / ball:.2f} times the ball's bound (by hand {hand:.2f})")


if __name__ == "__main__":
    main()
