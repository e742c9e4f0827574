"""What every registered distribution must keep; a new one is tested on its own examples by being registered."""

import json
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

from common.core.errors import BadMessage
from common.data.distributions.base import DISTRIBUTIONS, parse_distribution
from common.data.distributions.bits import ZipfItems
from tests.common.numerics.test_randomness import normals
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each, thinned

TWO_SIDED = [
    pytest.param(*kind.example()[:2], id=name) for name, kind in DISTRIBUTIONS.items() if "side" in kind.model_fields
]
"""People of S and people of T."""
UNLIKE = {"biased-parity": slice(0, 2), "sparse-conjunction": [1, 66], "class-clusters": slice(5, 8)}
"""The 0/1 features in whose law S and T of the examples differ."""


def same(one, two):
    return np.array_equal(one.features, two.features) and np.array_equal(one.labels, two.labels)


@for_each("distribution", examples(DISTRIBUTIONS))
class TestEveryDistribution:
    def test_draws_valid_records(self, distribution):
        records = distribution.draw(1, np.arange(200)).check()
        assert len(records) == 200
        assert records.dimension == distribution.dimension
        unknown = [] if distribution.name in DISTRIBUTIONS.shipped() else [None]
        assert distribution.feature_type in [records.features.dtype.type, *unknown]
        assert records.features.flags.c_contiguous
        assert set(np.unique(records.labels)) in ({1}, {-1, 1})  # one label: there is nothing to tell
        assert np.abs(records.features).max() <= distribution.coordinate_bound
        assert np.linalg.norm(records.features.astype(np.float64), axis=1).max() <= distribution.norm_bound

    def test_a_person_is_the_same_in_any_company(self, distribution):
        everybody = distribution.draw(1, np.arange(300))
        for people in (np.random.default_rng(0).permutation(300), np.array([250]), np.arange(0)):
            assert same(distribution.draw(1, people), everybody.take(people))
        assert not same(distribution.draw(2, np.arange(300)), everybody)

    def test_some_features_are_those_of_the_whole_record(self, distribution):
        whole = distribution.draw(1, np.arange(200))
        everything = np.arange(distribution.dimension)
        for columns in (None, everything, everything[::-2], everything[-1:], everything[:0]):
            assert same(distribution.draw_columns(1, np.arange(200), columns), whole.only(columns))

    def test_survives_the_wire_and_is_the_same_after_use(self, distribution):
        one, other = (parse_distribution(json.loads(json.dumps(distribution.wire()))) for _ in range(2))
        assert one == distribution
        assert same(one.draw(1, np.arange(3)), other.draw(1, np.arange(3)))
        assert (one == other, hash(one) == hash(other)) == (True, True)

    def test_refuses_an_unknown_parameter_and_numbers_that_are_not_finite(self, distribution):
        for broken in ({**distribution.wire(), "surprise": 1}, *with_a_number_that_is_none(distribution.wire())):
            with pytest.raises(BadMessage):
                parse_distribution(broken)


@for_each(("source", "target"), TWO_SIDED)
def test_source_and_target_people_of_one_seed_are_independent(source, target):
    assert (source.side, target.side, source.model_copy(update={"side": "target"})) == ("source", "target", target)
    source, target = (people.draw(1, np.arange(20_000)) for people in (source, target))
    # 8 standard errors: the features are light-tailed; chance below 1e-10.
    correlation = np.corrcoef(source.features[:, 0], target.features[:, 0])[0, 1]
    assert abs(correlation) < 8 / np.sqrt(20_000)


@for_each("name", UNLIKE)
def test_divergences_are_those_of_the_features_whose_law_differs(name):
    """To 5 standard errors of the rarest combination of them, which 16,000 of the curator's people have."""

    def law(people):
        features = people.draw(3, np.arange(400_000)).features[:, UNLIKE[name]]
        return np.unique(features, axis=0, return_counts=True)[1] / 400_000

    source: Any
    source, target = DISTRIBUTIONS[name].example()[:2]
    p, q = law(source), law(target)
    assert (q**2 / p).sum() == pytest.approx(source.chi_squared(), rel=0.03)
    assert (q / p).max() == pytest.approx(source.supremum(), rel=0.04)


RATES = [{"features": [17], "source": 0.95, "target": 0.6}, {"features": [130], "source": 0.98, "target": 0.98}]


def made(side, **parameters):
    return parse_distribution({"side": side, **parameters})


biased = partial(made, name="biased-parity", d=80, secret=[0, 5, 70], biased=3, rate=0.1)
clusters = partial(made, name="class-clusters", d=3, classes=4)
line = partial(made, name="drifting-line", d=4, slope=0.3)
ball = partial(made, name="gaussian-ball", d=8, close=2, sigma_source=0.1, sigma_target=0.07)
half_space = partial(made, name="gaussian-half-space", d=500, close=10, sigma_source=1.0, sigma_target=0.02)
sparse = partial(made, name="sparse-conjunction", d=200, truth=[4, 17], rates=RATES)


def test_labels_are_the_secret_parity_or_the_conjunction():
    parities, conjunctions = biased("source").draw(2, np.arange(500)), sparse("target").draw(1, np.arange(1000))
    odd = parities.features[:, [0, 5, 70]].sum(axis=1) % 2 == 1
    np.testing.assert_array_equal(parities.labels == 1, odd)
    np.testing.assert_array_equal(conjunctions.labels == 1, conjunctions.features[:, [4, 17]].all(axis=1))


@pytest.mark.parametrize("side", ["source", "target"])
def test_classes_are_as_frequent_as_stated_and_lie_around_their_centres(side):
    distribution = clusters(side, skew=1.5, spread=0.05)
    drawn = distribution.draw(1, np.arange(40_000))
    columns = drawn.features[:, 3:]
    assert set(np.unique(columns)) == {0.0, 1.0}
    assert (columns.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(drawn.labels == 1, columns[:, 0] == 1)
    # 5 standard errors of a share are below 5/(2 * 200).
    np.testing.assert_allclose(columns.mean(axis=0), distribution.shares, atol=0.0125)
    for c in range(4):
        mine = drawn.features[columns[:, c] == 1, :3]
        # At least 4,000 people: standard errors are below 0.0008 and 0.0006. Clipping at 0 and 1 is 4 deviations away.
        np.testing.assert_allclose(mine.mean(axis=0), distribution.centres[c], atol=0.005)
        np.testing.assert_allclose(mine.std(axis=0), 0.05, atol=0.003)


@pytest.mark.parametrize(("side", "means"), [("source", [0.25, 0.25, 0.5, 0.5]), ("target", [0.5] * 4)])
def test_least_squares_finds_the_sides_weights_and_half_of_the_sources_inputs_are_skewed(side, means):
    distribution, people = line(side, drift=0.7, skew=3.0), np.arange(200_000)
    records = distribution.draw(1, people)
    inputs, response = records.features[:, :4] - 0.5, records.features[:, 4] - 0.5
    found, *_ = np.linalg.lstsq(np.c_[inputs, np.ones(len(people))], response, rcond=None)
    assert np.abs(found - [*distribution.weights, 0.0]).max() < 0.002  # 4 standard errors
    np.testing.assert_array_equal(records.labels > 0, records.features[:, 4] > 0.5)
    np.testing.assert_allclose(inputs.mean(axis=0) + 0.5, means, atol=0.003)


@for_each(
    ("sigma_source", "sigma_target", "close", "expected"),
    [(1, 0.4, 6, 39.19102146816181), (1, 0.02, 10, 3054811402222022), (0.1, 0.07, 2, 1.3515339910798754)],
)
def test_chi_squared_has_its_known_values(sigma_source, sigma_target, close, expected):
    found = ball("source", d=10, sigma_source=sigma_source, sigma_target=sigma_target, close=close)
    assert found.chi_squared() == pytest.approx(expected, rel=1e-12)
    assert found.supremum() == pytest.approx((sigma_source / sigma_target) ** close, rel=1e-12)


def test_the_stated_share_of_the_target_is_negative_and_a_known_one_of_the_source():
    """A smaller one inside the ball, nearly half of the half-space; to 6 standard errors: chance below 1e-8."""
    inside_source = chi2.cdf(0.07**2 / 0.1**2 * chi2.ppf(0.3, 2), 2)
    below_source = ndtr(half_space("source").threshold / math.sqrt(10))
    assert inside_source < 0.2
    assert 0.48 < below_source < 0.5
    for distribution, share in (
        (ball("target", inside=0.3), 0.3),
        (ball("source", inside=0.3), inside_source),
        (half_space("target", d=12), 0.01),
        (half_space("source", d=12), below_source),
    ):
        found = np.mean(distribution.draw(4, np.arange(200_000)).labels < 0)
        assert abs(found - share) < 6 * np.sqrt(share * (1 - share) / 200_000)


@pytest.mark.parametrize(("side", "stream", "sigma"), [("source", 0, 0.1), ("target", 1, 0.07)])
def test_records_are_the_feature_map_of_the_normals(side, stream, sigma):
    # The plain oracle of the compiled loop.
    distribution = ball(side, center=0.004, scale=20.0, norm=0.9)
    x = normals(6, stream, np.arange(300), 8) * np.where(np.arange(8) < 2, sigma, 0.1)
    mapped = (x**2 - 0.004) * 20.0
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    mapped *= np.minimum(1.0, 0.9 / lengths)
    records = distribution.draw(6, np.arange(300))
    np.testing.assert_allclose(records.features, mapped, rtol=1e-6, atol=1e-9)
    inner = (x[:, :2] ** 2).sum(axis=1)
    np.testing.assert_array_equal(records.labels, np.where(inner <= distribution.radius_squared, -1, 1))
    assert 0 < np.mean(lengths > 0.9) < 1


def test_the_people_of_two_balls_are_those_of_one_with_the_label_of_the_other_behind():
    people = np.arange(20_000)
    two = ball("target", name="gaussian-balls", second=0.45, inside=0.3, norm=0.02).draw(3, people)
    one, other = (ball("target", inside=inside, norm=0.02).draw(3, people) for inside in (0.3, 0.45))
    np.testing.assert_array_equal(two.features[:, :8], one.features)
    np.testing.assert_array_equal(two.labels, one.labels)
    np.testing.assert_array_equal(two.features[:, 8], other.labels == 1)


@pytest.mark.parametrize(("side", "stream", "sigma"), [("source", 0, 1.0), ("target", 1, 0.02)])
def test_records_are_the_normals_and_their_half_space(side, stream, sigma):
    # 2500 people: more than one block of the loop.
    distribution = half_space(side)
    x = normals(6, stream, np.arange(2500), 500) * np.where(np.arange(500) < 10, sigma, 1.0)
    records = distribution.draw(6, np.arange(2500))
    np.testing.assert_array_equal(records.features, x.astype(np.float32))
    sums = x[:, :10].sum(axis=1)
    np.testing.assert_array_equal(records.labels, np.where(sums <= distribution.threshold, -1, 1))


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


def test_equal_sides_have_no_divergence():
    for equal in (biased("source", biased=0), clusters("source"), sparse("source", rates=[])):
        assert equal.chi_squared() == equal.supremum() == 1.0
    np.testing.assert_array_equal(clusters("source").shares, clusters("target").shares)
    np.testing.assert_array_equal(line("source", drift=0.0).weights, line("target", drift=0.0).weights)
    assert ball("source", sigma_target=0.12).supremum() == np.inf  # a wider target


@for_each(
    ("make", "wrong", "says"),
    [
        (biased, {"secret": [5, 0]}, "strictly increasing"),
        (biased, {"secret": [80]}, "feature 80 of the secret is not in 0..79"),
        (biased, {"biased": 81}, "must be at most d = 80"),
        (ball, {"close": 9}, "close = 9 must be at most d = 8"),
        (ball, {"sigma_target": 0.15}, "infinite"),
        (sparse, {"truth": [4, 4]}, "two different features"),
        (sparse, {"truth": [4, 200]}, r"feature 200 is not in 0\.\.199"),
        (sparse, {"rates": [*RATES, RATES[0]]}, "more than one rate"),
    ],
)
def test_what_makes_no_sense_is_refused(make, wrong, says):
    with pytest.raises(BadMessage, match=says):
        make(side="source", **wrong)


def test_pairs_are_queries_with_urls_of_their_own():
    people = ZipfItems(b=40, items=12, pairs=(16, 3), power=1.0)
    queries, urls = people.strings >> np.uint64(24), people.strings & np.uint64((1 << 24) - 1)
    assert [len(set(queries[3 * q : 3 * q + 3].tolist())) for q in range(4)] == [1] * 4
    assert (len(set(queries.tolist())), len(set(urls.tolist()))) == (4, 12)
    shares = people.shares.reshape(4, 3)
    np.testing.assert_allclose(shares, np.outer(1.0 / np.arange(1, 5), 1.0 / np.arange(1, 4)) * shares[0, 0])
    for wrong in ((16, 5), (40, 3), (0, 3)):
        with pytest.raises(ValueError, match="pairs are bits of the query"):
            ZipfItems(b=40, items=12, pairs=wrong)
