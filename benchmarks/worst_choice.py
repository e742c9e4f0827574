"""Tightness of the bound for a private choice: the delta that one explicit base attains, beside the claimed delta.

    python -m benchmarks.worst_choice [--json]

Takes half a minute. For each law of the number of runs and each delta: mu of a run whose choice is (1, delta)-DP by
:func:`common.privacy.theorems.selection.mu_for_selection`, and the least mu at which one explicit
base has a choice with a larger delta, so that no bound can allow it. That base is Gaussian, N(0, 1) beside N(mu, 1),
divided into bins, and its bins are ranked as in the theorem of :mod:`common.privacy.theorems.selection`. The printed
values are computed from the law of the best of K bins; of the theorem only the order is used. docs/accounting.md,
"A private choice", has the table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys

import numpy as np
from scipy.special import ndtr

from common.core.arrays import AnyArray, Floats
from common.numerics.bisection import between
from common.privacy.theorems.selection import AnyLaw, NegativeBinomial, Poisson, geometric, mu_for_selection, weights

EPSILON, DELTAS = 1.0, (1e-2, 1e-6)
LAWS: dict[str, AnyLaw] = {
    "geometric, mean 10": geometric(10.0),
    "geometric, mean 20": geometric(20.0),
    "logarithmic, gamma = .02": NegativeBinomial(eta=0.0, gamma=0.02, most=200),
    "Poisson, rate 10": Poisson(rate=10.0, most=26),
}
BINS = 4000
STRIDE = 8
"""Bins that share a place in the ranking."""


def shares(law: AnyLaw) -> Floats:
    """Return P(K = 0) = 0, P(K = 1), ..., P(K = most)."""
    whole = weights(law)
    total = sum(whole)
    return np.array([0.0, *(share / total for share in whole)])


def binned(mu: float) -> tuple[Floats, Floats]:
    """Return the probabilities of N(mu, 1) and N(0, 1) in ascending bins."""
    edges = np.concatenate([[-np.inf], np.linspace(-8.0, 8.0 + mu, BINS - 1), [np.inf]])
    upper = edges > 0.0
    first, second = (np.where(upper, -ndtr(mean - edges), ndtr(edges - mean)) for mean in (mu, 0.0))
    return np.diff(first) + (np.diff(upper) * 1.0), np.diff(second) + (np.diff(upper) * 1.0)


def worst_order(first: Floats, second: Floats, law: AnyLaw, epsilon: float) -> AnyArray:
    """Return the bins from the best to the worst: large bins in descending order among the others, which ascend.

    A large bin s comes after the number x of small ones at which its term of the theorem is greatest.
    """
    slope = np.polynomial.polynomial.polyder(shares(law))
    low, low_other = (np.append(0.0, np.cumsum(side))[::STRIDE] for side in (first, second))  # N(x) and x
    levels = np.linspace(0.0, 1.0, 100_001)
    table = np.polynomial.polynomial.polyval(levels, slope)
    keys = np.cumsum(second) - second / 2.0  # x of a bin that is small
    taken, taken_other = 0.0, 0.0
    before = 0.0
    for bins in np.array_split(np.arange(len(first))[::-1], len(first) // STRIDE):
        q, other = float(first[bins].sum()), float(second[bins].sum())
        fits = low_other <= 1.0 - taken_other - other
        better = np.interp(1.0 - taken - q / 2.0 - low[fits], levels, table)
        worse = np.interp(1.0 - taken_other - other / 2.0 - low_other[fits], levels, table)
        terms = q * better - math.exp(epsilon) * other * worse
        place = int(np.argmax(terms))
        if terms[place] <= 0.0:
            break
        before = max(before, float(low_other[place]))
        keys[bins] = before - 1e-12 * np.arange(len(bins), 0, -1)
        taken, taken_other = taken + q, taken_other + other
    return np.argsort(keys, kind="stable")


def attained(mu: float, law: AnyLaw, epsilon: float) -> float:
    """Return the delta at epsilon of the choice among runs of that base."""
    first, second = binned(mu)
    order = worst_order(first, second, law, epsilon)
    chances = [
        -np.diff(np.polynomial.polynomial.polyval(1.0 - np.append(0.0, np.cumsum(side[order])), shares(law)))
        for side in (first, second)
    ]
    return float(np.maximum(chances[0] - math.exp(epsilon) * chances[1], 0.0).sum())


def impossible(allowed: float, law: AnyLaw, delta: float) -> float:
    """Return the least mu above ``allowed``, to a part in 10^4, at which that base's choice has more than delta."""
    return between(2.0 * allowed, allowed, lambda mu: attained(mu, law, EPSILON) > delta, 1e-4)


def main(arguments: list[str] | None = None) -> int:
    """Search and print."""
    parser = argparse.ArgumentParser(description="the worst base of a private choice")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    rows = []
    for name, law in LAWS.items():
        for delta in DELTAS:
            mu = mu_for_selection(EPSILON, delta, law)
            rows.append({"law": name, "delta": delta, "mu": mu, "impossible": impossible(mu, law, delta)})
    if chosen.json:
        print(json.dumps(rows))
        return 0
    print(f"{'law of K':<26} {'delta':>6} {'mu':>8} {'impossible':>11}")
    for row in rows:
        print(f"{row['law']:<26} {row['delta']:>6g} {row['mu']:>8.4f} {row['impossible']:>11.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
