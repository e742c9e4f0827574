"""The response is the line that it is said to be, and the two sides differ in inputs and weights."""

from __future__ import annotations

import numpy as np
import pytest

from common.data.distributions.drifting_line import DriftingLine

PEOPLE = np.arange(200_000)


@pytest.mark.parametrize("side", ["source", "target"])
def test_least_squares_finds_the_sides_weights(side):
    line = DriftingLine(side=side, d=4, slope=0.3, noise=0.05, drift=0.7, skew=2.0)
    records = line.draw(1, PEOPLE)
    inputs, response = records.features[:, :4] - 0.5, records.features[:, 4] - 0.5
    found, *_ = np.linalg.lstsq(np.c_[inputs, np.ones(len(PEOPLE))], response, rcond=None)
    assert np.abs(found[:4] - line.weights).max() < 0.002  # 4 standard errors
    assert abs(found[4]) < 0.002
    np.testing.assert_array_equal(records.labels > 0, records.features[:, 4] > 0.5)


def test_only_the_source_has_skewed_inputs_and_only_half_of_them():
    means = {
        s: DriftingLine(side=s, d=4, skew=3.0).draw(1, PEOPLE).features[:, :4].mean(axis=0)
        for s in ("source", "target")
    }
    assert np.abs(means["target"] - 0.5).max() < 0.003
    assert np.abs(means["source"] - [0.25, 0.25, 0.5, 0.5]).max() < 0.003


def test_without_drift_the_weights_are_the_same():
    one, other = (DriftingLine(side=side, d=6, drift=0.0) for side in ("source", "target"))
    np.testing.assert_array_equal(one.weights, other.weights)
    assert np.linalg.norm(one.weights) == pytest.approx(0.8)
