"""Biased features and a secret parity: divergence in closed form, rates, labels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.data.distributions.parities import BiasedParity
from tests.tiers import for_each


def biased(side="source", **parameters):
    return BiasedParity.parse({"side": side, "d": 80, "secret": [0, 5, 70], "biased": 3, "rate": 0.1} | parameters)


def test_divergences_agree_with_a_sum_over_all_points():
    distribution = biased(d=3, secret=[1])
    second_moment, largest = 0.0, 0.0
    for point in product([0, 1], repeat=3):
        chance = np.prod([0.1 if one else 0.9 for one in point])
        second_moment += 0.125**2 / float(chance)
        largest = max(largest, 0.125 / float(chance))
    assert distribution.chi_squared() == pytest.approx(second_moment, rel=1e-12)
    assert distribution.supremum() == pytest.approx(largest, rel=1e-12)


def test_without_bias_there_is_no_divergence():
    assert biased(biased=0).chi_squared() == biased(biased=0).supremum() == 1.0


@pytest.mark.parametrize("side", ["source", "target"])
def test_features_have_their_rates(side):
    # 80 rates at 7 standard errors: chance below 1e-9.
    features = biased(side).draw(5, np.arange(40_000)).features.astype(np.float64)
    rates = np.full(80, 0.5)
    rates[:3] = 0.1 if side == "source" else 0.5
    scaled = (features.mean(axis=0) - rates) / np.sqrt(rates * (1 - rates))
    assert np.abs(scaled).max() < 7 / np.sqrt(40_000)


def test_labels_are_the_secret_parity():
    records = biased().draw(2, np.arange(500))
    odd = records.features[:, [0, 5, 70]].sum(axis=1) % 2 == 1
    np.testing.assert_array_equal(records.labels, np.where(odd, 1, -1))


@for_each(
    ("change", "says"),
    [
        ({"secret": [5, 0]}, "strictly increasing"),
        ({"secret": [80]}, "feature 80 of the secret is not in 0..79"),
        ({"secret": [-1]}, "greater than or equal to 0"),
        ({"biased": 81}, "must be at most d = 80"),
        ({"rate": 0.0}, "rate"),
    ],
)
def test_what_makes_no_sense_is_refused(change, says):
    with pytest.raises(BadMessage, match=says):
        biased(**change)
