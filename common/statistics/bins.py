"""Bins of a score: a public grid that suits every scale, and few bins of about the same number of people."""

from __future__ import annotations

import itertools
import math

import numpy as np

from common.core.arrays import Floats

_QUARTERS = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
"""2^(k/4): a library's powers may differ between machines."""


def octave_quarter(step: int) -> float:
    """Return 2^(step/4), the same on every machine."""
    return math.ldexp(_QUARTERS[step % 4], step // 4)


FINE_CUTS: tuple[float, ...] = tuple(
    sorted({0.0, *(sign * octave_quarter(step) for step in range(-12, 17, 2) for sign in (-1.0, 1.0))})
)
"""Halves of octaves from 1/8 to 16 on both sides of 0: whatever the scale of a score is, some of them divide it."""


def middles(cuts: tuple[float, ...]) -> Floats:
    """Return a number inside each bin: the middle, and for the outer ones as far from their cut as the next is wide."""
    inner = [(low + high) / 2.0 for low, high in itertools.pairwise(cuts)]
    if not inner:
        return np.array([cuts[0] - 1.0, cuts[0] + 1.0])
    first, last = cuts[0] - (cuts[1] - cuts[0]) / 2.0, cuts[-1] + (cuts[-1] - cuts[-2]) / 2.0
    return np.array([first, *inner, last])


def coarser(people: Floats, most: int) -> list[int]:
    """Return after which fine bins to cut, ascending, so that at most ``most`` bins have about the same people.

    Parameters
    ----------
    people
        Shape (k,): noisy numbers in the fine bins; negative ones count as 0.
    most
        At least 2.

    Returns
    -------
    Numbers b: cut between the fine bins b and b + 1. At least one.
    """
    held = np.cumsum(np.maximum(people, 0.0))
    if held[-1] <= 0.0:
        return [len(people) // 2 - 1]
    wanted = [held[-1] * part / most for part in range(1, most)]
    cuts = {min(int(np.searchsorted(held, level)), len(people) - 2) for level in wanted}
    return sorted(cuts)


def means(people: Floats, cuts: list[int], values: Floats) -> Floats:
    """Return the mean of the fine bins' values over the people of each coarse bin; the plain mean where nobody is."""
    edges = [0, *(cut + 1 for cut in cuts), len(people)]
    found = []
    for begin, end in itertools.pairwise(edges):
        held = np.maximum(people[begin:end], 0.0)
        weights = held if held.sum() > 0.0 else np.ones(end - begin)
        found.append(math.fsum((weights * values[begin:end]).tolist()) / math.fsum(weights.tolist()))
    return np.array(found)
