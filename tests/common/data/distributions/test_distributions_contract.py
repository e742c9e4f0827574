"""What every registered distribution must keep; a new one is tested on its own examples by being registered."""

from __future__ import annotations

import json

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.data.distributions.base import DISTRIBUTIONS, parse_distribution
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each

TWO_SIDED = [
    pytest.param(*kind.example()[:2], id=name) for name, kind in DISTRIBUTIONS.items() if "side" in kind.model_fields
]
"""People of S and people of T."""
WITH_DENSITY = [pair for pair in TWO_SIDED if hasattr(pair.values[0], "density_ratios")]


def same(one, two):
    return np.array_equal(one.features, two.features) and np.array_equal(one.labels, two.labels)


def test_examples_have_both_sides_where_there_are_two():
    for source, target in (pair.values for pair in TWO_SIDED):
        assert (source.side, target.side) == ("source", "target")
        assert source.model_copy(update={"side": "target"}) == target


@for_each("distribution", examples(DISTRIBUTIONS))
class TestEveryDistribution:
    def test_draws_valid_records(self, distribution):
        records = distribution.draw(1, np.arange(200)).check()
        assert len(records) == 200
        assert records.dimension == distribution.dimension
        assert records.features.flags.c_contiguous
        assert set(np.unique(records.labels)) in ({1}, {-1, 1})  # one label: there is nothing to tell
        assert np.abs(records.features).max() <= distribution.coordinate_bound
        assert np.linalg.norm(records.features.astype(np.float64), axis=1).max() <= distribution.norm_bound

    def test_a_person_is_the_same_in_any_company(self, distribution):
        everybody = distribution.draw(1, np.arange(300))
        order = np.random.default_rng(0).permutation(300)
        assert same(distribution.draw(1, order), everybody.take(order))
        assert same(distribution.draw(1, np.array([250])), everybody.take([250]))

    def test_people_of_another_seed_are_others(self, distribution):
        assert not same(distribution.draw(1, np.arange(50)), distribution.draw(2, np.arange(50)))

    def test_some_features_are_those_of_the_whole_record(self, distribution):
        whole = distribution.draw(1, np.arange(200))
        everything = np.arange(distribution.dimension)
        for columns in (None, everything, everything[::-2], everything[-1:], everything[:0]):
            assert same(distribution.draw_columns(1, np.arange(200), columns), whole.only(columns))

    def test_nobody_can_be_drawn(self, distribution):
        nobody = distribution.draw(1, np.arange(0))
        assert nobody.features.shape == (0, distribution.dimension)
        assert len(distribution.draw_columns(1, np.arange(0), np.array([0]))) == 0

    def test_survives_the_wire(self, distribution):
        assert parse_distribution(json.loads(json.dumps(distribution.wire()))) == distribution

    def test_refuses_an_unknown_parameter(self, distribution):
        with pytest.raises(BadMessage, match="surprise"):
            parse_distribution({**distribution.wire(), "surprise": 1})

    def test_refuses_numbers_that_are_not_finite(self, distribution):
        for broken in with_a_number_that_is_none(distribution.wire()):
            with pytest.raises(BadMessage):
                parse_distribution(broken)


@for_each(("source", "target"), TWO_SIDED)
def test_source_and_target_people_of_one_seed_are_independent(source, target):
    source, target = (people.draw(1, np.arange(20_000)) for people in (source, target))
    # 8 standard errors: the features are light-tailed; chance below 1e-10.
    correlation = np.corrcoef(source.features[:, 0], target.features[:, 0])[0, 1]
    assert abs(correlation) < 8 / np.sqrt(20_000)


@for_each(("source", "target"), WITH_DENSITY)
def test_importance_weights_have_the_stated_moments_and_supremum(source, target):
    # Means against their own standard errors; 6 of them: chance below 1e-8 (weights are bounded).
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
