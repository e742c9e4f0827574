"""Appendix C of Kohen & Sheffet: the divergence, the share of each label, a half-space in the features."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from common.core.errors import BadMessage
from common.data.distributions.gaussians import GaussianHalfSpace
from common.local.hypotheses.linear import Linear
from tests.common.numerics.test_counter import normals
from tests.tiers import for_each


def half_space(side, **parameters):
    return GaussianHalfSpace.parse(
        {"side": side, "d": 500, "close": 10, "sigma_source": 1.0, "sigma_target": 0.02} | parameters
    )


def test_the_divergence_is_that_of_appendix_c():
    assert half_space("source").chi_squared() == pytest.approx(3054811402222022, rel=1e-12)
    assert half_space("source").supremum() == pytest.approx(50.0**10, rel=1e-12)


def test_one_percent_of_the_target_and_nearly_half_of_the_source_are_negative():
    # 6 standard errors: chance below 1e-8.
    people = np.arange(200_000)
    of_source = ndtr(half_space("source").threshold / math.sqrt(10))
    assert 0.48 < of_source < 0.5
    for side, share in [("target", 0.01), ("source", of_source)]:
        found = np.mean(half_space(side, d=12).draw(4, people).labels < 0)
        assert abs(found - share) < 6 * np.sqrt(share * (1 - share) / people.size)


@pytest.mark.parametrize(("side", "stream", "sigma"), [("source", 0, 1.0), ("target", 1, 0.02)])
def test_records_are_the_normals_and_their_half_space(side, stream, sigma):
    # 2500 people: more than one block of the loop.
    distribution = half_space(side)
    x = normals(6, stream, np.arange(2500), 500) * np.where(np.arange(500) < 10, sigma, 1.0)
    records = distribution.draw(6, np.arange(2500))
    np.testing.assert_array_equal(records.features, x.astype(np.float32))
    sums = x[:, :10].sum(axis=1)
    np.testing.assert_array_equal(records.labels, np.where(sums <= distribution.threshold, -1, 1))


def test_a_linear_hypothesis_can_be_right():
    distribution = half_space("target")
    truth = Linear(weights=(1.0,) * 10, threshold=distribution.threshold)
    assert truth.mistakes(distribution.draw(2, np.arange(20_000))).sum() == 0


@for_each(
    ("wrong", "says"),
    [
        ({"close": 501}, "close = 501 must be at most d = 500"),
        ({"sigma_target": 1.5}, "infinite"),
        ({"share": 0}, "share"),
    ],
)
def test_impossible_parameters_are_refused(wrong, says):
    with pytest.raises(BadMessage, match=says):
        half_space("source", **wrong)
