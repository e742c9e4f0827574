"""Bassily, Thakkar and Thakurta, Algorithm 2: distances, the cutoff, what leaks, and how many chunks it takes.

    python -m benchmarks.corrections.sparse_vector

The threshold's noise is Lap(lambda), a query's Lap(2 lambda): an epoch up to its bottom costs 2/lambda times the
distance's sensitivity. Epochs compose exactly (Kairouz, Oh and Viswanath 2015) at delta/2; the other half is for
labels that leak.
"""

from __future__ import annotations

import argparse
import math

from scipy.special import ndtr

from common.privacy.theorems.composition import composed_epsilon
from common.privacy.theorems.gaussian_dp import mu_allowed

TEACHERS = 9


def printed(ones: int) -> int:
    """Return max(0, ct(y) - ct(1 - y) - 1) with ``ones`` of the teachers for 1."""
    return max(0, abs(2 * ones - TEACHERS) - 1)


def ours(ones: int) -> int:
    """Return max(0, ceil((c1 - c2)/2) - 1)."""
    return max(0, -(-abs(2 * ones - TEACHERS) // 2) - 1)


def stable(ones: int) -> int:
    """Return the largest k so that no k changed votes change the winner (Definition 2.3, by trying; 9 is odd)."""
    wins = 2 * ones > TEACHERS
    turning = min(abs(other - ones) for other in range(TEACHERS + 1) if (2 * other > TEACHERS) != wins)
    return turning - 1


def bottoms(cutoff: int, queries: int) -> int:
    """Return how many bottoms the printed loop emits when no query is stable."""
    c = emitted = 0
    for _ in range(queries):
        if not c <= cutoff:
            break
        emitted, c = emitted + 1, c + 1
    return emitted


def holds_to(epochs: int, cutoff: int, sensitivity: int, delta: float) -> float:
    """Return up to which epsilon the epochs keep to epsilon with the printed lambda."""
    low, high = 1.0, 400.0
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        each = 2 * sensitivity * middle / math.sqrt(32 * cutoff * math.log(2 / delta))
        low, high = (middle, high) if composed_epsilon(epochs, each, 0.0, delta / 2) <= middle else (low, middle)
    return low


def main() -> None:
    """Print all four."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    moves = {
        name: max(abs(f(i + 1) - f(i)) for i in range(TEACHERS)) for name, f in (("printed", printed), ("ours", ours))
    }
    assert moves == {"printed": 2, "ours": 1}
    assert all(ours(ones) == stable(ones) for ones in range(TEACHERS + 1))
    print(
        f"{TEACHERS} teachers, one changed: the printed distance moves by up to {moves['printed']}, "
        f"the number of votes to the turn by {moves['ours']}"
    )
    cutoff, queries, people, epsilon, delta, beta = 100, 1000, 50_000, 1.0, 1e-6, 0.05
    assert bottoms(cutoff, queries) == cutoff + 1
    print(f"c <= T with T = {cutoff}: {bottoms(cutoff, queries)} bottoms")
    width = math.sqrt(32 * cutoff * math.log(2 / delta)) / epsilon
    for name, epochs, sensitivity in (("as meant", cutoff, 1), ("as printed", cutoff + 1, 2)):
        cost = composed_epsilon(epochs, 2 * sensitivity / width, 0.0, delta / 2)
        most = holds_to(epochs, cutoff, sensitivity, delta)
        assert cost <= epsilon < most
        print(f"  lambda = {width:.1f}, {name}: the epochs cost {cost:.4f} at epsilon = 1; private up to {most:.1f}")
    level = 2 * width * math.log(2 * queries / delta)
    # P(Lap(b2) - Lap(b1) > w) = (b2^2 e^{-w/b2} - b1^2 e^{-w/b1})/(2 (b2^2 - b1^2)), b1 = lambda, b2 = 2 lambda.
    one = (4 * math.exp(-level / (2 * width)) - math.exp(-level / width)) / 6
    print(
        f"leaks: one has probability {one:.2e}; "
        f"a union over m = {queries} takes {queries * one:.2e}, over T {cutoff * one:.2e}, of delta/2"
    )
    assert cutoff * one < queries * one < delta
    chunks = round(34 * math.sqrt(2) * width * math.log(4 * queries * cutoff / min(delta, beta / 2)))
    sigma = math.sqrt(2 * queries) / mu_allowed(epsilon, delta)
    flips = float(ndtr(-0.8 * 1000 / (math.sqrt(2) * sigma)))
    assert chunks == 276_779 > people
    print(
        f"printed k = {chunks:,} for n = {people:,}; "
        f"GNMax: sigma = {sigma:.1f}, k = 1000, {100 * flips:.2f}% wrong at 90% agreement"
    )


if __name__ == "__main__":
    main()
