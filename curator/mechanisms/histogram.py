"""The largest cells of a noisy histogram over a domain too large to go through: filtering of empty cells."""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Words
from common.numerics.randomness import RandomSource
from common.scenario.problems.blender import threshold
from common.vocabulary.mechanisms.laplace import Laplace


def listed(values: Words, bits: int, most: int, noise: Laplace, source: RandomSource) -> Words:
    """Return the values whose noisy counts reach the threshold, the largest counts first, at most so many.

    Of equal counts the smaller value comes first, whether anybody holds it or not: the order is a function of the noisy
    histogram, too.
    """
    held, counts = np.unique(values, return_counts=True)
    least = threshold(bits, noise)
    noisy = counts + noise.noise(len(held), source.derive("held")).astype(np.int64)
    reaching = noisy >= least
    empty = _spurious(held, bits, noise, least, source.derive("empty"))
    beyond = noise.successes(len(empty), source.derive("beyond")).astype(np.int64)
    items = np.concatenate([held[reaching], empty])
    order = np.lexsort((items, -np.concatenate([noisy[reaching], least + beyond])))
    return items[order[:most]]


def _spurious(held: Words, bits: int, noise: Laplace, least: int, source: RandomSource) -> Words:
    """Draw the empty cells that reach the threshold: their number is binomial, they are uniform."""
    cells = (1 << bits) - len(held)
    chance = noise.ratio**least / (1.0 + noise.ratio)
    found: list[int] = []
    wanted = _binomial(cells, chance, float(source.derive("number").uniforms(1)[0]))
    words = source.derive("which")
    while len(found) < wanted:
        item = int(words.words(1)[0]) >> (64 - bits)
        place = int(np.searchsorted(held, np.uint64(item)))
        if not (place < len(held) and int(held[place]) == item) and item not in found:
            found.append(item)
    return np.array(found, dtype=np.uint64)


def _binomial(trials: int, chance: float, uniform: float) -> int:
    """Return the number of successes whose distribution function first exceeds a uniform number."""
    count, mass = 0, math.exp(trials * math.log1p(-chance)) if trials else 1.0
    total = mass
    while total <= uniform and count < trials and mass > 0.0:
        mass *= (trials - count) / (count + 1) * chance / (1.0 - chance)
        count += 1
        total += mass
    return count
