"""Appendix D of Kohen & Sheffet: the divergence in closed form, the ball, the public feature map."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from common.core.errors import BadMessage
from common.data.distributions.gaussians import GaussianBall
from common.local.hypotheses.linear import Linear
from tests.common.numerics.test_counter import normals
from tests.tiers import for_each


def ball(side, **parameters):
    return GaussianBall.parse(
        {"side": side, "d": 8, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07} | parameters
    )


@for_each(
    ("sigma_source", "sigma_target", "close", "expected"),
    [(1, 0.4, 6, 39.19102146816181), (1, 0.02, 10, 3054811402222022), (0.1, 0.07, 2, 1.3515339910798754)],
)
def test_chi_squared_has_its_known_values(sigma_source, sigma_target, close, expected):
    found = ball("source", d=10, sigma_source=sigma_source, sigma_target=sigma_target, close=close)
    assert found.chi_squared() == pytest.approx(expected, rel=1e-12)
    assert found.supremum() == pytest.approx((sigma_source / sigma_target) ** close, rel=1e-12)


def test_a_wider_target_has_unbounded_weights():
    assert ball("source", sigma_target=0.12).supremum() == np.inf


def test_the_stated_share_of_the_target_lies_inside_and_a_smaller_one_of_the_source():
    # 6 standard errors: chance below 1e-8.
    people = np.arange(200_000)
    inside_source = chi2.cdf(0.07**2 / 0.1**2 * chi2.ppf(0.3, 2), 2)
    for side, share in [("target", 0.3), ("source", inside_source)]:
        found = np.mean(ball(side, inside=0.3).draw(4, people).labels < 0)
        assert abs(found - share) < 6 * np.sqrt(share * (1 - share) / people.size)
    assert inside_source < 0.2


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


@for_each("norm", [0.001, 0.01, 0.03])
def test_no_record_is_longer_than_the_norm_not_even_by_rounding(norm):
    features = ball("source", norm=norm).draw(1, np.arange(20_000)).features.astype(np.float64)
    assert np.linalg.norm(features, axis=1).max() <= norm


def test_without_shortening_the_label_is_a_half_space_in_the_features():
    distribution = ball("target", center=0.01, scale=50.0)
    records = distribution.draw(2, np.arange(50_000))
    threshold = (distribution.radius_squared - 2 * 0.01) * 50.0
    margins = Linear(weights=(1, 1, 0, 0, 0, 0, 0, 0), threshold=threshold).margins(records.features)
    clear = np.abs(margins) > 1e-6
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(np.sign(margins[clear]), records.labels[clear])


@for_each(
    ("wrong", "says"),
    [
        ({"close": 9}, "close = 9 must be at most d = 8"),
        ({"sigma_target": 0.15}, "infinite"),
        ({"inside": 1}, "inside"),
    ],
)
def test_impossible_parameters_are_refused(wrong, says):
    with pytest.raises(BadMessage, match=says):
        ball("source", **wrong)
