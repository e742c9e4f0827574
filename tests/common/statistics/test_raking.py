"""Raking: the weighted sample has the wanted shares, as far as the step reaches, and noise alone moves little."""

from __future__ import annotations

import numpy as np
import pytest

from common.statistics import raking
from common.statistics.bins import chances
from common.statistics.calibration import Calibration

SCORES = np.array([-2.0, -0.5, 1.0, 2.5])


def weighed(sample: np.ndarray, tilts: list[int], eta: float) -> np.ndarray:
    weights = sample * np.exp(-eta * (1.0 - np.array(tilts) / 1024.0))
    return weights / weights.sum()


def test_weights_take_the_sample_to_the_wanted_shares():
    sample, wanted = np.array([0.1, 0.4, 0.3, 0.2]), np.array([0.4, 0.1, 0.2, 0.3])
    found = weighed(sample, raking.tilts(wanted, sample, 4.0, 1024), 4.0)
    assert found == pytest.approx(wanted, abs=2e-3)


def test_a_step_that_is_too_short_goes_as_far_as_it_can():
    sample, wanted = np.array([0.5, 0.5]), np.array([0.99, 0.01])
    tilts = raking.tilts(wanted, sample, 1.0, 1024)
    assert tilts == [1024, 0]
    assert weighed(sample, tilts, 1.0)[0] == pytest.approx(np.e / (1.0 + np.e))


def test_negative_counts_of_a_sample_are_no_reason_to_fail():
    assert all(0 <= tilt <= 1024 for tilt in raking.tilts(np.array([0.5, 0.5]), np.array([-0.1, 0.4]), 4.0, 1024))


def test_labels_get_the_populations_share_if_it_is_known_and_stay_where_noise_explains_the_difference():
    minus, plus = raking.label_ratios(0.25, 1e-6, 0.07)
    assert (0.93 * minus, 0.07 * plus) == pytest.approx((0.75, 0.25), abs=1e-4)
    assert raking.label_ratios(0.25, 0.3, 0.24) == pytest.approx((1.0, 1.0))
    assert raking.label_ratios(0.25, 0.01, 0.25) == pytest.approx((1.0, 1.0))
    assert raking.label_ratios(0.25, 1e-6, 0.24, 0.05) == pytest.approx((1.0, 1.0))  # the sample's own noise, too
    for share in (-0.2, 0.0, 1.0, 1.7):  # estimates may lie outside [0, 1]
        assert all(0.0 < ratio < 250.0 for ratio in raking.label_ratios(share, 0.01, 0.5))


def test_shares_are_smoothed_towards_the_curve_by_as_much_as_noise_explains():
    rng, curve = np.random.default_rng(3), Calibration(1.0, (0.0,))
    chance = chances(SCORES)
    exact = np.stack([0.25 * (1.0 - chance), 0.25 * chance], axis=1)[None]
    errors: dict[str, list[float]] = {"raw": [], "smoothed": []}
    for _ in range(200):
        noisy = exact + rng.normal(scale=0.05, size=exact.shape)
        found = raking.smoothed(noisy, exact, SCORES, curve, 400.0)
        assert found.min() > 0.0
        assert found.sum() == pytest.approx(1.0)
        errors["raw"].append(float(np.square(noisy - exact).sum()))
        errors["smoothed"].append(float(np.square(found - exact).sum()))
    assert np.mean(errors["smoothed"]) < 0.7 * np.mean(errors["raw"])


def test_what_the_shares_say_clearly_is_kept():
    curve = Calibration(1.0, (0.0,))
    other = np.array([[[0.01, 0.24], [0.24, 0.01], [0.01, 0.24], [0.24, 0.01]]])
    assert raking.smoothed(other, other, SCORES, curve, 1e8) == pytest.approx(other, abs=1e-4)
