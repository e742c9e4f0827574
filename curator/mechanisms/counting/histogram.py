"""The largest cells of a noisy histogram over a domain too large to go through: filtering of empty cells."""

from __future__ import annotations

import numpy as np

from common.core.arrays import AnyArray, Words
from common.local.mechanisms.laplace import LIMIT, Laplace
from common.numerics.randomness import RandomSource
from common.scenario.problems.blender import threshold
from curator.mechanisms.counting.spurious import how_many, rare_noise, tail_of, which

_FURTHER = 16
"""So many spurious values are drawn beyond those that a list can hold."""


def listed(values: Words, bits: int, most: int, noise: Laplace, source: RandomSource) -> Words:
    """Return the values whose noisy counts reach the threshold, the largest counts first, at most so many.

    Of equal counts the smaller value comes first, whether anybody holds it or not: the order is a function of the noisy
    histogram, too.

    *Every list has its probability under noise in each of the 2^bits cells, to within a factor e^{2^-90}.* Cells that
    somebody holds have that noise. Of the others, a binomial number reaches the threshold, any of them with the same
    probability, by amounts that are independent of which they are: :mod:`curator.mechanisms.counting.spurious` draws
    each to within a factor e^{2^-110}, given that they are at most K = ``most`` + 16. That changes little: let y be a
    list with j <= ``most`` values that nobody holds. Given that n >= j values are spurious, y needs its j among them,
    with the same amounts as for n = j, and it needs more. So P(y, n) <= C(n, j) w(n)/w(j) P(y, j), w being the binomial
    law, and C(n, j) w(n)/w(j) = C(m - j, n - j) o^{n-j} <= (m o)^{n-j}/(n - j)! for m cells of odds o. The threshold
    keeps m o below .02: all n > K together change P(y) by a factor below 1 + 2^-140.

    Words, coins and comparisons are as many as the number of people, ``bits``, ``most`` and the noise say. Counting and
    sorting are NumPy's, whose time may depend on what they sort.
    """
    people, most_spurious = len(values), most + _FURTHER
    held, counts = np.unique(values, return_counts=True)
    absent = people - len(held)
    noise = rare_noise(noise.epsilon)
    tail = tail_of(noise, threshold(bits, noise))
    drawn = noise.noise(people, source.derive("held")).astype(np.int64)
    noisy = np.pad(counts, (0, absent)).astype(np.int64) + drawn
    noisy[len(held) :] = 0
    cells = (1 << bits) - len(held)
    spurious = how_many(cells, tail.chance, most_spurious, source.derive("number"))
    ranks = np.array(which(cells, most_spurious, source.derive("which")), dtype=object)
    amounts = source.derive("beyond")
    beyond = np.array([tail.least + tail.beyond(amounts) for _ in range(most_spurious)], dtype=np.int64)
    beyond[spurious:] = 0
    items = np.concatenate([np.pad(held, (0, absent)), _empty(held, ranks, absent)])
    reached = np.minimum(np.concatenate([noisy, beyond]), int(LIMIT))
    order = np.lexsort((items, -reached))
    return items[order[: min(most, int(np.count_nonzero(reached >= tail.least)))]]


def _empty(held: Words, ranks: AnyArray, absent: int) -> Words:
    """Return the cells of some ranks among those that nobody holds."""
    before = np.pad(held - np.arange(len(held), dtype=np.uint64), (0, absent), constant_values=(1 << 64) - 1)
    places = np.minimum(ranks, (1 << 64) - 1).astype(np.uint64)
    return places + np.searchsorted(before, places, side="right").astype(np.uint64)
