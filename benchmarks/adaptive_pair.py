"""The epsilon of an adversary that chooses neighbours anew at each step, compared with one explicit pair.

    python -m benchmarks.adaptive_pair [--json]

Takes a minute. For rows of ``benchmarks.tightness``: the epsilon at delta of the pair A = C at one end of the ball,
B at the other (forth), of the pair A = B (back), and of an adversary who picks at each step, knowing the privacy loss
so far, the best of these and of three pairs with A in between: the value of the game, by dynamic programming over the
loss. Losses are rounded to a grid that keeps their mean and slightly increases their variance. So each epsilon is about
a hundredth too large, and the values should be compared only with each other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from common.core.arrays import Floats
from common.numerics.bisection import between

ROWS = (("few steps", 0.01, 1.0, 1_000, 1e-5, 0.004), ("large draws", 0.05, 0.25, 2_000, 1e-5, 0.005))
"""Title, s, u, steps, delta, width of the grid; the ends below are multiples of it."""

LOWEST, HIGHEST = -4.0, 6.0
"""Range of the losses so far."""

STEP_LOWEST, STEP_HIGHEST = -2.0, 4.0
"""Range of the losses of one step."""

Means = tuple[float, float, float]
"""The means of A, B and C, on a line."""


def kernel(tv_bound: float, means: Means, width: float) -> Floats:
    """Return the distribution of one step's loss under (1-s) A + s B, on multiples of the width from the lowest on."""
    a, b, c = means
    edges = np.linspace(-10.0, 10.0 + max(means), 200_001)
    x = 0.5 * (edges[1:] + edges[:-1])
    mass = (1.0 - tv_bound) * np.diff(ndtr(edges - a)) + tv_bound * np.diff(ndtr(edges - b))
    up, down = (np.log1p(tv_bound * np.expm1((m - a) * (x - a) - (m - a) ** 2 / 2.0)) for m in (b, c))
    count = round((STEP_HIGHEST - STEP_LOWEST) / width) + 2
    places = np.clip((up - down - STEP_LOWEST) / width, 0.0, count - 2.0)
    low = places.astype(np.int64)
    share = places - low
    found = np.bincount(low, mass * (1.0 - share), minlength=count)
    return np.asarray(found + np.bincount(low + 1, mass * share, minlength=count))


def value(tv_bound: float, pairs: Sequence[Means], steps: int, epsilon: float, width: float) -> float:
    """Return the delta at epsilon of an adversary that picks one of the pairs at each step."""
    losses = width * np.arange(round(LOWEST / width), round(HIGHEST / width) + 1)
    laws = [kernel(tv_bound, means, width) for means in pairs]
    reach, first = len(laws[0]), round(STEP_LOWEST / width)
    beyond = -np.expm1(epsilon - losses[-1] - width * np.arange(1, reach + 1))
    points = next_fast_len(len(losses) + 3 * reach, real=True)
    filters = [rfft(law[::-1], points) for law in laws]
    place = 2 * reach + first - 1
    reached = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
    for _ in range(steps):
        spectrum = rfft(np.concatenate([np.zeros(reach), reached, beyond]), points)
        gained = [irfft(spectrum * law, points)[place : place + len(losses)] for law in filters]
        reached = np.maximum(np.max(gained, axis=0), 0.0)
    return float(reached[np.argmin(np.abs(losses))])


def epsilon_reached(tv_bound: float, pairs: Sequence[Means], steps: int, delta: float, width: float) -> float:
    """Return the epsilon up to which such an adversary reaches more than delta."""
    return between(4.0, 0.5, lambda level: value(tv_bound, pairs, steps, level, width) <= delta, 2e-3)


def ways(ratio: float) -> dict[str, list[Means]]:
    """Return the pairs of each adversary."""
    forth, back = (0.0, ratio, 0.0), (ratio, ratio, 0.0)
    between_them = [(share * ratio, ratio, 0.0) for share in (0.25, 0.5, 0.75)]
    return {"forth": [forth], "back": [back], "adaptive": [forth, back, *between_them]}


def main(arguments: list[str] | None = None) -> int:
    """Search and print."""
    parser = argparse.ArgumentParser(description="adversaries that choose at each step")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    rows = []
    for title, s, u, steps, delta, width in ROWS:
        found = {name: epsilon_reached(s, pairs, steps, delta, width) for name, pairs in ways(u).items()}
        rows.append((title, found))
    if chosen.json:
        print(json.dumps([{"plan": title, **found} for title, found in rows]))
        return 0
    for title, found in rows:
        print(f"{title:<12}", *(f"{name} {epsilon:.3f}" for name, epsilon in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
