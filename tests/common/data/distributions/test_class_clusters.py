"""Class clusters: one class each, as frequent as stated, around their centres."""

from __future__ import annotations

import numpy as np
import pytest

from common.data.distributions.class_clusters import ClassClusters

PEOPLE = np.arange(40_000)


def clusters(side: str = "target", **settings: float) -> ClassClusters:
    return ClassClusters.parse({"side": side, "d": 3, "classes": 4, **settings})


@pytest.mark.parametrize("side", ["source", "target"])
def test_classes_are_as_frequent_as_stated_and_everybody_has_one(side):
    distribution = clusters(side, skew=1.5)
    drawn = distribution.draw(1, PEOPLE)
    columns = drawn.features[:, 3:]
    assert set(np.unique(columns)) == {0.0, 1.0}
    assert (columns.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(drawn.labels == 1, columns[:, 0] == 1)
    # 5 standard errors of a share are below 5/(2 * 200).
    np.testing.assert_allclose(columns.mean(axis=0), distribution.shares, atol=0.0125)


def test_clusters_lie_around_their_centres():
    distribution = clusters(spread=0.05)
    drawn = distribution.draw(1, PEOPLE)
    for c in range(4):
        mine = drawn.features[drawn.features[:, 3 + c] == 1, :3]
        # About 10,000 people: standard errors are 0.0005 and 0.00035. Clipping at 0 and 1 is 4 deviations away.
        np.testing.assert_allclose(mine.mean(axis=0), distribution.centres[c], atol=0.003)
        np.testing.assert_allclose(mine.std(axis=0), 0.05, atol=0.002)


def test_without_skew_both_sides_are_the_same_law():
    assert (clusters("source").chi_squared(), clusters("source").supremum()) == (1.0, 1.0)
    np.testing.assert_array_equal(clusters("source").shares, clusters("target").shares)
