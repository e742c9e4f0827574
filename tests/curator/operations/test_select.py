"""Select: the law of the exponential mechanism, and its theorem on all neighbouring samples of a small size."""

from itertools import product

import numpy as np

from common.operations.counting import Select
from tests.curator.operations.given import assert_law, people, release
from tests.tiers import for_each, thinned

SAMPLE = people([[0, 1, 1, 0, 1], [0, 1, 0, 1, 0], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])


def law(records, first, count, epsilon):
    """Return the chance of each feature: e^{epsilon C_i/2}, normalized."""
    ones = records.features[:, first : first + count].sum(axis=0, dtype=np.float64)
    weights = np.exp(0.5 * epsilon * ones)
    return dict(zip(range(first, first + count), weights / weights.sum(), strict=True))


@for_each(("first", "count", "epsilon"), thinned([(0, 5, 1.0), (1, 3, 2.0), (2, 3, 0.1)], 1, several=True))
def test_a_feature_is_selected_as_often_as_the_exponential_mechanism_says(first, count, epsilon):
    operation = Select(first=first, count=count, epsilon=epsilon)
    found = [release(operation, SAMPLE, seed)["feature"] for seed in range(1500)]
    assert_law(found, law(SAMPLE, first, count, epsilon))


def test_with_much_privacy_to_spend_it_is_the_best_and_equals_are_alike():
    best = [release(Select(count=5, epsilon=200.0), SAMPLE, seed)["feature"] for seed in range(50)]
    assert set(best) == {1}
    equals = [
        release(Select(first=2, count=1 + 1, epsilon=1.0), people([[0, 0, 1, 1]]), s)["feature"] for s in range(900)
    ]
    assert_law(equals, {2: 0.5, 3: 0.5})


def test_shards_make_no_difference():
    operation = Select(count=5, epsilon=1.0)
    for seed in range(20):
        assert release(operation, SAMPLE, seed) == release(operation, SAMPLE, seed, cut=1)


def test_neighbours_have_laws_within_e_to_the_epsilon():
    """All pairs of samples of two people with three features that differ in one person."""
    epsilon, largest = 1.0, 0.0
    rows = list(product([0, 1], repeat=3))
    for other, one, two in product(rows, repeat=3):
        laws = [law(people([other, row]), 0, 3, epsilon) for row in (one, two)]
        largest = max(largest, *(abs(np.log(laws[0][i] / laws[1][i])) for i in range(3)))
    assert 0.7 * epsilon < largest <= epsilon


def test_the_selected_count_is_rarely_far_below_the_largest():
    """P(C_i < max C - 2 ln(d/beta)/epsilon) <= beta, here by the law itself."""
    for epsilon, beta in product([0.3, 1.0, 4.0], [0.5, 0.05]):
        features = np.tril(np.ones((20, 12), dtype=np.uint8))
        ones = features.sum(axis=0)
        far = ones < ones.max() - 2.0 * np.log(12 / beta) / epsilon
        acceptance_table = law(people(features), 0, 12, epsilon)
        assert sum(acceptance_table[i] for i in np.flatnonzero(far)) <= beta
