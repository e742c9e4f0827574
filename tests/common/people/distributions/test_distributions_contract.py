"""What every registered distribution must keep; a new one needs an example here, and nothing else."""

import json

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.people.distributions.base import DISTRIBUTIONS, parse_distribution

TWO_SIDED = {
    "biased-parity": {"d": 70, "secret": [0, 3, 66], "biased": 2, "rate": 0.2},
    "class-clusters": {"d": 5, "classes": 3, "skew": 1.5},
    "drifting-line": {"d": 5},
    "gaussian-ball": {"d": 5, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07, "norm": 0.05},
    "gaussian-balls": {"d": 5, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07, "norm": 0.05, "second": 0.7},
    "gaussian-half-space": {"d": 5, "close": 2, "sigma_source": 1.0, "sigma_target": 0.7, "share": 0.3},
    "sparse-conjunction": {
        "d": 70,
        "truth": [3, 66],
        "rates": [
            {"features": [66], "source": 0.8, "target": 0.5},
            {"features": [1], "source": 0.5, "target": 0.6},
        ],
    },
}
ONE_SIDED = {
    "biased-coins": {"d": 70, "biased": [0, 66], "rates": [0.2, 1.0]},
    "one-of-many-parities": {"c": 70, "d": 3, "shares": 9},
    "parity-and-threshold": {"c": 70, "b": 9, "secret": [0, 66], "threshold": 300, "power": 2.0},
    "parity-chooses-secret": {"c": 5, "shares": 9, "secret": [0, 3]},
    "parity-xor-threshold": {"c": 70, "b": 9, "secret": [0, 66], "threshold": 300, "power": 2.0},
    "zipf-items": {"b": 64, "items": 50},
}
"""Curator and agents have people of the same distribution."""
EXAMPLES = {**TWO_SIDED, **ONE_SIDED}
UNLABELLED = ("biased-coins", "one-of-many-parities", "zipf-items")
"""Whose labels are all +1."""
SIDES = [
    *((name, side) for name in TWO_SIDED for side in ("source", "target")),
    *((name, None) for name in ONE_SIDED),
]
WITH_DENSITY = [name for name in EXAMPLES if hasattr(DISTRIBUTIONS[name], "density_ratios")]


def example(name, side):
    return parse_distribution({"name": name, **({} if side is None else {"side": side}), **EXAMPLES[name]})


def same(one, two):
    return np.array_equal(one.features, two.features) and np.array_equal(one.labels, two.labels)


def test_every_registered_distribution_is_covered():
    assert sorted(EXAMPLES) == DISTRIBUTIONS.names()


@pytest.mark.parametrize(("name", "side"), SIDES)
class TestEveryDistribution:
    def test_draws_valid_records(self, name, side):
        distribution = example(name, side)
        records = distribution.draw(1, np.arange(200)).check()
        assert len(records) == 200
        assert records.dimension == distribution.dimension
        assert records.features.flags.c_contiguous
        assert set(np.unique(records.labels)) == ({1} if name in UNLABELLED else {-1, 1})
        assert np.abs(records.features).max() <= distribution.coordinate_bound
        assert np.linalg.norm(records.features.astype(np.float64), axis=1).max() <= distribution.norm_bound

    def test_a_person_is_the_same_in_any_company(self, name, side):
        distribution = example(name, side)
        everybody = distribution.draw(1, np.arange(300))
        order = np.random.default_rng(0).permutation(300)
        assert same(distribution.draw(1, order), everybody.take(order))
        assert same(distribution.draw(1, np.array([250])), everybody.take([250]))

    def test_people_of_another_seed_are_others(self, name, side):
        distribution = example(name, side)
        assert not same(distribution.draw(1, np.arange(50)), distribution.draw(2, np.arange(50)))

    def test_some_features_are_those_of_the_whole_record(self, name, side):
        distribution = example(name, side)
        whole = distribution.draw(1, np.arange(200))
        everything = np.arange(distribution.dimension)
        for columns in (None, everything, everything[::-2], everything[-1:], everything[:0]):
            assert same(distribution.draw_columns(1, np.arange(200), columns), whole.only(columns))

    def test_nobody_can_be_drawn(self, name, side):
        distribution = example(name, side)
        nobody = distribution.draw(1, np.arange(0))
        assert nobody.features.shape == (0, distribution.dimension)
        assert len(distribution.draw_columns(1, np.arange(0), np.array([0]))) == 0

    def test_survives_the_wire(self, name, side):
        distribution = example(name, side)
        assert parse_distribution(json.loads(json.dumps(distribution.wire()))) == distribution

    def test_refuses_an_unknown_parameter(self, name, side):
        with pytest.raises(BadMessage, match="surprise"):
            parse_distribution({**example(name, side).wire(), "surprise": 1})


@pytest.mark.parametrize("name", list(TWO_SIDED))
def test_source_and_target_people_of_one_seed_are_independent(name):
    source, target = (example(name, side).draw(1, np.arange(20_000)) for side in ("source", "target"))
    # 8 standard errors: the features are light-tailed; chance below 1e-10.
    correlation = np.corrcoef(source.features[:, 0], target.features[:, 0])[0, 1]
    assert abs(correlation) < 8 / np.sqrt(20_000)


@pytest.mark.parametrize("name", WITH_DENSITY)
def test_importance_weights_have_the_stated_moments_and_supremum(name):
    # Means against their own standard errors; 6 of them: chance below 1e-8 (weights are bounded).
    source, target = (example(name, side) for side in ("source", "target"))
    under_source = source.density_ratios(3, np.arange(400_000))
    under_target = target.density_ratios(3, np.arange(400_000))
    for sample, expected in [
        (under_source, 1.0),
        (under_source**2, source.chi_squared()),
        (under_target, source.chi_squared()),
    ]:
        assert abs(sample.mean() - expected) < 6 * sample.std() / np.sqrt(sample.size)
    assert under_source.max() <= source.supremum() * (1 + 1e-12)
    assert under_source.max() >= 0.99 * source.supremum()


def test_an_unknown_distribution_is_named():
    with pytest.raises(BadMessage, match="'cauchy'; known: biased-coins, biased-parity"):
        parse_distribution({"name": "cauchy"})
