"""Sparse conjunctions: rates, divergence in closed form, and a decoy that only the target reveals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.data.distributions.boolean_features import SparseConjunction
from tests.tiers import for_each, thinned

RATES = [
    {"features": [17], "source": 0.95, "target": 0.6},
    {"features": [130], "source": 0.98, "target": 0.98},
]


def sparse(side, **parameters):
    return SparseConjunction.parse({"side": side, "d": 200, "truth": [4, 17], "rates": RATES} | parameters)


def test_divergences_agree_with_a_sum_over_all_points():
    distribution = sparse("source", rates=[*RATES, {"features": [0], "source": 0.3, "target": 0.45}])
    second_moment, largest = 0.0, 0.0
    for point in product([0, 1], repeat=3):
        chances = [
            np.prod([getattr(r, side) if one else 1 - getattr(r, side) for r, one in zip(rates, point, strict=True)])
            for side, rates in (("source", distribution.rates), ("target", distribution.rates))
        ]
        second_moment += chances[1] ** 2 / chances[0]
        largest = max(largest, chances[1] / chances[0])
    assert distribution.chi_squared() == pytest.approx(second_moment, rel=1e-12)
    assert distribution.supremum() == pytest.approx(largest, rel=1e-12)


def test_features_listed_together_are_features_with_the_same_rate():
    together = sparse("source", rates=[{"features": [17, 3], "source": 0.9, "target": 0.6}])
    apart = sparse("source", rates=[{"features": [i], "source": 0.9, "target": 0.6} for i in (17, 3)])
    assert together.chi_squared() == pytest.approx(apart.chi_squared(), rel=1e-12)
    assert together.supremum() == pytest.approx(apart.supremum(), rel=1e-12)
    people = np.arange(100)
    np.testing.assert_array_equal(together.draw(1, people).features, apart.draw(1, people).features)
    np.testing.assert_allclose(together.density_ratios(1, people), apart.density_ratios(1, people))


def test_equal_distributions_have_no_divergence():
    assert sparse("source", rates=[]).chi_squared() == sparse("source", rates=[]).supremum() == 1.0


@pytest.mark.parametrize("side", thinned(["source", "target"], 1))
def test_features_have_their_rates_and_are_pairwise_uncorrelated(side):
    # 200 rates and 19,900 correlations at 7 standard errors: chance below 1e-6 (2.6e-12 each).
    features = sparse(side).draw(5, np.arange(40_000)).features.astype(np.float64)
    rates = np.full(200, 0.5)
    for rate in RATES:
        rates[rate["features"]] = rate[side]  # type: ignore[call-overload]
    scaled = (features - rates) / np.sqrt(rates * (1 - rates))
    assert np.abs(scaled.mean(axis=0)).max() < 7 / np.sqrt(40_000)
    correlations = scaled.T @ scaled / 40_000 - np.diag(np.mean(scaled**2, axis=0))
    assert np.abs(correlations).max() < 7 / np.sqrt(40_000)


def test_the_label_is_the_conjunction():
    records = sparse("target").draw(1, np.arange(1000))
    both = (records.features[:, 4] == 1) & (records.features[:, 17] == 1)
    np.testing.assert_array_equal(records.labels == 1, both)


def test_the_decoy_is_good_on_the_source_and_bad_on_the_target():
    # Losses 0.0340 and 0.2020 in closed form; 6 standard errors.
    for side, p in [("source", 0.95), ("target", 0.6)]:
        records = sparse(side).draw(8, np.arange(100_000))
        decoy = (records.features[:, 4] & records.features[:, 130]) == 1
        loss = 0.5 * (p * 0.02 + (1 - p) * 0.98)
        assert abs(np.mean(decoy != (records.labels == 1)) - loss) < 6 * np.sqrt(loss / 100_000)


@for_each(
    ("wrong", "says"),
    [
        ({"truth": [4, 4]}, "two different features"),
        ({"truth": [4, 200]}, r"feature 200 is not in 0\.\.199"),
        ({"rates": [*RATES, RATES[0]]}, "more than one rate"),
        ({"rates": [{"features": [0], "source": 0.0, "target": 0.5}]}, "rates.0.source"),
    ],
)
def test_impossible_parameters_are_refused(wrong, says):
    with pytest.raises(BadMessage, match=says):
        sparse("source", **wrong)
