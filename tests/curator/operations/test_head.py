"""Head list and counts: the law of each, spurious values, disjoint halves, and what a neighbour changes."""

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from common.core.errors import PolicyRefused
from common.local.mechanisms.laplace import Laplace
from common.numerics.randomness import RandomSource
from common.operations.counting import HeadList
from common.privacy.rounding import down
from common.protocols.blender import SPURIOUS, threshold
from curator.mechanisms.sparse_histogram import listed
from tests.curator.operations.given import assert_law, geometric, numbers, release, workspace
from tests.tiers import for_each, thinned

MOST = 40
"""Noise beyond this hardly ever comes, at the epsilons here."""


def law(counts, noise, least, most):
    """Return the law of the list as a function of the noisy histogram: the largest first, of equals the smaller."""
    acceptance_table: Any = Counter()
    pmf = geometric(noise, MOST)
    for drawn in product(pmf, repeat=len(counts)):
        noisy = {cell: count + z for cell, (count, z) in enumerate(zip(counts, drawn, strict=True))}
        reaching = sorted((cell for cell in noisy if noisy[cell] >= least), key=lambda cell: (-noisy[cell], cell))
        acceptance_table[tuple(reaching[:most])] += float(np.prod([pmf[z] for z in drawn]))
    return acceptance_table


@pytest.fixture
def generous(monkeypatch):
    """A threshold that empty cells reach quite often."""
    monkeypatch.setattr("common.protocols.blender.SPURIOUS", 0.8)


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("counts", thinned([(0, 1), (0, 0), (1, 0), (2, 2)], 1))
@pytest.mark.parametrize("most", [1, 2])
def test_the_list_is_a_function_of_the_noisy_histogram(counts, most):
    """Which values are held shows in the noisy counts only: neither in the order of equals, nor in what is left out."""
    noise = Laplace(epsilon=1.0)
    values = np.repeat(np.arange(2, dtype=np.uint64), counts)
    found = [tuple(listed(values, 1, most, noise, RandomSource.seeded(seed)).tolist()) for seed in range(800)]
    assert_law(found, law(counts, noise, threshold(1, noise), most))


@for_each("bits", [8, 48, 64])
@for_each("epsilon", [0.3, 1.0, 8.0])
def test_the_threshold_is_the_least_that_keeps_spurious_values_rare(bits, epsilon):
    noise = Laplace(epsilon=epsilon)
    least = threshold(bits, noise)
    expected = [2.0**bits * noise.ratio**t / (1.0 + noise.ratio) for t in (least - 1, least)]
    assert expected[1] <= SPURIOUS * (1 + 1e-9)
    assert expected[0] > SPURIOUS * (1 - 1e-9) or least == 1


@pytest.mark.slow
def test_spurious_values_are_uniform_among_those_that_nobody_holds(monkeypatch):
    monkeypatch.setattr("common.protocols.blender.SPURIOUS", 3.0)
    noise, held = Laplace(epsilon=2.0), np.repeat(np.array([2, 9], dtype=np.uint64), 50)
    least = threshold(4, noise)
    chance = noise.ratio**least / (1.0 + noise.ratio)
    lists = [listed(held, 4, 16, noise, RandomSource.seeded(seed)).tolist() for seed in range(1000)]
    assert all(sorted(items[:2]) == [2, 9] for items in lists)
    counts = np.bincount([item for items in lists for item in items[2:]], minlength=16)
    assert counts[2] == counts[9] == 0
    # Fourteen cells at 5.5 standard errors: chance below 1e-6.
    others = np.delete(counts, [2, 9])
    assert np.abs(others - 1000 * chance).max() < 5.5 * np.sqrt(1000 * chance * (1 - chance))
    assert_law([len(items) - 2 for items in lists], {k: float(binom.pmf(k, 14, chance)) for k in range(15)})


def test_the_domain_of_64_bits_is_no_larger_than_others():
    values = np.full(200, (1 << 64) - 1, dtype=np.uint64)
    assert listed(values, 64, 4, Laplace(epsilon=1.0), RandomSource.seeded(0)).tolist() == [(1 << 64) - 1]
    assert listed(values[:0], 64, 4, Laplace(epsilon=1.0), RandomSource.seeded(0)).tolist() == []


# Both halves ---------------------------------------------------------------------------------------------------------

EXACT = 60.0
"""So much privacy to spend that there hardly is noise."""


def test_the_people_at_even_places_choose_and_those_at_odd_places_are_counted():
    values = np.empty(20, dtype=int)
    values[::2], values[1::2] = [5] * 6 + [1] * 4, [5] * 3 + [2] * 7
    for cut in (0, 7):
        found = release(HeadList(bits=3, most=8, epsilon=EXACT), numbers(values, 3), cut=cut)
        assert found == {"items": [5, 1], "counts": [3, 0], "people": 10}
    assert release(HeadList(bits=3, most=1, epsilon=EXACT), numbers(values, 3))["items"] == [5]
    odd = release(HeadList(bits=2, first=1, most=8, epsilon=EXACT), numbers(values[:-1], 3))
    assert odd == {"items": [1], "counts": [3], "people": 9}


@pytest.mark.slow
def test_counts_have_geometric_noise_at_half_of_epsilon():
    values = np.empty(140, dtype=int)
    values[::2], values[1::2] = 5, [5] * 30 + [0] * 40
    noise = Laplace(epsilon=1.0)
    found = [release(HeadList(bits=3, most=1, epsilon=2.0), numbers(values, 3), seed) for seed in range(500)]
    assert {tuple(told["items"]) for told in found} == {(5,)}
    assert_law([told["counts"][0] - 30 for told in found], geometric(noise, MOST))


def test_one_person_alone_cannot_be_in_two_halves():
    asked = HeadList(bits=3, most=4, epsilon=1.0)
    with pytest.raises(PolicyRefused, match="that takes two people, found 1"):
        workspace(numbers([3], 3)).check(asked)
    workspace(numbers([3, 3], 3)).check(asked)


def test_a_person_is_in_one_half_only():
    """With the same randomness a person at an odd place changes no list, one at an even place no count of it."""
    values = np.array([3, 3, 6, 6] * 20)
    one = release(HeadList(bits=3, most=4, epsilon=1.0), numbers(values, 3), seed=4)
    counted, chosen = values.copy(), values.copy()
    counted[1], chosen[0] = 6, 6
    other = release(HeadList(bits=3, most=4, epsilon=1.0), numbers(counted, 3), seed=4)
    assert other["items"] == one["items"]
    moved = dict(zip(other["items"], np.subtract(other["counts"], one["counts"]), strict=True))
    assert (moved[3], moved[6]) == (-1, 1)
    third = release(HeadList(bits=3, most=4, epsilon=1.0), numbers(chosen, 3), seed=4)
    if third["items"] == one["items"]:
        assert third["counts"] == one["counts"]


@for_each("most", [1, 2, 3])
def test_neighbours_have_lists_within_e_to_the_epsilon(most):
    """All samples of two people, and three cells; the noise is for epsilon/2, as two cells change."""
    epsilon = 2.4
    noise = Laplace(epsilon=down(epsilon / 2.0))
    laws = {}
    for sample in product(range(3), repeat=2):
        counts = tuple(np.bincount(sample, minlength=3).tolist())
        laws[sample] = truncated(counts, noise, most)
    largest = 0.0
    for (kept, one), other in product(laws, range(3)):
        p, q = laws[kept, one], laws[kept, other]
        largest = max(largest, *(np.log(p[answer] / q[answer]) for answer in p if q[answer] > 1e-6))
    assert 0.5 * epsilon < largest <= epsilon * (1 + 1e-3)


def truncated(counts, noise, most, width=9):
    """Return the law of the list with noise in a narrow window; what is left out is below 1e-4 of each chance here."""
    cells = np.arange(-width, width + 1)
    q = noise.ratio
    grids = np.meshgrid(*[count + cells for count in counts], indexing="ij")
    mass = np.prod(np.meshgrid(*[(1 - q) / (1 + q) * q ** np.abs(cells)] * 3, indexing="ij"), axis=0).ravel()
    noisy = np.stack([grid.ravel() for grid in grids])
    order = np.lexsort((np.broadcast_to(np.arange(3)[:, None], noisy.shape), -noisy), axis=0)
    acceptance_table: Any = Counter()
    sorted_counts = np.take_along_axis(noisy, order, axis=0)
    long = np.minimum((sorted_counts >= 1).sum(axis=0), most)
    for length in range(most + 1):
        chosen = long == length
        keys = order[:length, chosen]
        for key, chance in zip(map(tuple, keys.T.tolist()), mass[chosen], strict=True):
            acceptance_table[key] += chance
    return acceptance_table
