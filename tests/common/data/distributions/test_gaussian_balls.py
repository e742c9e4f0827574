"""Two labels for the same people: the first as with one ball, the second from another radius."""

from __future__ import annotations

import numpy as np
import pytest

from common.data.distributions.base import parse_distribution

SETTINGS = {"side": "target", "d": 6, "close": 2, "sigma_source": 0.1, "sigma_target": 0.06, "inside": 0.3}
BALLS = parse_distribution({"name": "gaussian-balls", "second": 0.45, "norm": 0.02, **SETTINGS})
BALL = parse_distribution({"name": "gaussian-ball", "norm": 0.02, **SETTINGS})


def test_people_are_those_of_one_ball_with_a_label_more():
    people = np.arange(5000)
    two, one = BALLS.draw(3, people), BALL.draw(3, people)
    np.testing.assert_array_equal(two.features[:, :6], one.features)
    np.testing.assert_array_equal(two.labels, one.labels)
    assert set(two.features[:, 6]) == {0.0, 1.0}


def test_the_second_label_is_that_of_its_own_ball():
    people = np.arange(5000)
    other = parse_distribution({"name": "gaussian-ball", **SETTINGS, "inside": 0.45})
    np.testing.assert_array_equal(BALLS.draw(3, people).features[:, 6] == 1.0, other.draw(3, people).labels == 1)
    # Five standard errors of 200,000 people.
    share = 1.0 - BALLS.draw(4, np.arange(200_000)).features[:, 6].mean()
    assert share == pytest.approx(0.45, abs=0.006)


def test_its_bound_holds_with_the_label():
    lengths = np.linalg.norm(BALLS.draw(3, np.arange(5000)).features, axis=1)
    assert lengths.max() <= BALLS.norm_bound
    assert BALLS.dimension == 7
    assert parse_distribution({"name": "gaussian-balls", "second": 0.45, **SETTINGS}).norm_bound == float("inf")
