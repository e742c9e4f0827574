"""Count: two-sided geometric noise, whose law a change of one moves by e^epsilon at most."""

import math

import numpy as np

from common.local.mechanisms.laplace import Laplace
from common.operations.counting import Count
from tests.curator.operations.given import assert_law, geometric, people, release
from tests.tiers import for_each, thinned

SAMPLE = people(np.arange(24).reshape(12, 2) % 3 == 0)
"""Either feature is 1 for four people of twelve."""


@for_each("epsilon", thinned([1.0, 0.3, 4.0], 1))
@for_each("feature", [0, 1])
def test_the_count_has_geometric_noise(feature, epsilon):
    truth = int(SAMPLE.features[:, feature].sum())
    noise = Laplace(epsilon=epsilon)
    found = [release(Count(feature=feature, epsilon=epsilon), SAMPLE, seed)["count"] - truth for seed in range(600)]
    assert_law(found, geometric(noise, 60))


def test_with_much_privacy_to_spend_it_is_the_truth_in_any_shards():
    for cut in (0, 5):
        assert release(Count(feature=1, epsilon=30.0), SAMPLE, cut=cut)["count"] == 4


@for_each("epsilon", [0.001, 0.3, 1.0, 30.0])
def test_neighbours_have_laws_within_e_to_the_epsilon(epsilon):
    """Counts of neighbours differ by at most 1: the ratio of the two laws is 1/q at every number."""
    q = Laplace(epsilon=epsilon).ratio
    assert -math.log(q) <= epsilon
    assert -math.log(q) >= 0.99 * epsilon
