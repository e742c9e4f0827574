"""A calibration is found again from shares, exact or noisy; a prior decides where they say little."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.statistics.bins import FINE_CUTS, Within, chances, octave_quarter
from common.statistics.calibration import VAGUE, Calibration, Prior, Shares, Told, believed, calibrate, forecast
from tests.tiers import for_each

SCORES = np.linspace(-3.0, 3.0, 9)
MASS = np.full(9, 1.0 / 9.0)
POINTS = Within(tuple(range(9)), SCORES, np.ones(9))
"""Nobody's score differs from that of the bin."""


def items(slope: float, intercepts: tuple[float, ...], mass: np.ndarray = MASS) -> np.ndarray:
    """Return exact shares of people by group, bin and label."""
    found = []
    for intercept in intercepts:
        chance = chances(slope * SCORES + intercept)
        found.append(np.stack([mass * (1.0 - chance), mass * chance], axis=1))
    return np.array(found) / len(intercepts)


def shares(items: np.ndarray, precision: float = 1e6, within: Within = POINTS) -> Shares:
    return Shares(items, np.full(items.shape[1], precision), within)


@for_each("step", [-4, 0, 3])
@for_each("intercept", [-2.0, 0.3])
def test_it_is_found_from_exact_shares(step, intercept):
    found = calibrate(shares(items(octave_quarter(step), (intercept,))))
    assert found.slope == octave_quarter(step)
    assert found.intercepts[0] == pytest.approx(intercept, abs=1e-3)


def test_groups_have_intercepts_of_their_own():
    found = calibrate(shares(items(1.0, (-1.5, 0.0, 1.0)), 1e9))
    assert found.intercepts == pytest.approx((-1.5, 0.0, 1.0), abs=0.01)


def test_noise_of_one_size_in_all_shares_does_not_count_as_people():
    """2,500 agents at epsilon 1: every share is off by .04. A likelihood of counts would believe all of it."""
    rng, precision = np.random.default_rng(5), 600.0
    errors: list[float] = []
    for _ in range(60):
        true = items(1.0, (-1.0,))
        noisy = true + rng.normal(scale=precision**-0.5, size=true.shape)
        found = calibrate(shares(noisy, precision), Prior(intercept=-0.7, steep=0.3, far=0.5))
        errors.append(found.intercepts[0] + 1.0)
    assert abs(np.mean(errors)) < 0.3
    assert np.std(errors) < 0.4


def test_what_people_told_of_their_label_moves_the_intercept():
    """Nothing is known of labels by score; a quarter of the people is +1, the slope is known."""
    silent, prior = shares(np.zeros((1, 9, 2)), 1e-9), Prior(steep=0.01, far=3.0)
    masses = shares(items(1.0, (0.0,)), 1e9).masses(MASS)
    assert masses.shares == pytest.approx(MASS, abs=1e-6)
    found = calibrate(silent, prior, Told(0.25, 0.001), masses)
    assert float((MASS * chances(SCORES + found.intercepts[0])).sum()) == pytest.approx(0.25, abs=0.005)
    vague = calibrate(silent, prior, Told(0.25, 10.0), masses)
    assert vague.intercepts[0] == pytest.approx(0.0, abs=0.1)


def test_masses_lie_between_what_is_said_and_the_sample_by_what_is_known():
    said = np.stack([np.full(9, 0.0), np.arange(9.0) / 36.0], axis=1)[None]
    assert shares(said, 1e9).masses(MASS).shares == pytest.approx(np.arange(9.0) / 36.0, abs=1e-4)
    assert shares(said, 1e-9).masses(MASS).shares == pytest.approx(MASS, abs=1e-4)
    wrong = shares(-said, 1e9).masses(MASS)
    assert (wrong.shares > 0.0).all()
    assert math.fsum(wrong.shares.tolist()) == pytest.approx(1.0)


def test_people_lie_inside_wide_bins_as_the_sample_does():
    """Two bins only: the curve's mean over each of them is what its shares are."""
    weights = np.concatenate([np.full(4, 0.25), np.full(5, 0.2)])
    wide = Within((0, 4), SCORES, weights)
    chance = wide.means(1.0, np.array([-0.5]))[0]
    assert chance == pytest.approx([chances(SCORES[:4] - 0.5).mean(), chances(SCORES[4:] - 0.5).mean()])
    assert wide.middles == pytest.approx([SCORES[:4].mean(), SCORES[4:].mean()])
    exact = np.stack([0.5 * (1.0 - chance), 0.5 * chance], axis=1)[None]
    found = calibrate(shares(exact, 1e8, wide))
    assert found == Calibration(1.0, (pytest.approx(-0.5, abs=2e-3),))


def test_a_prior_decides_where_nobody_has_said_anything_and_yields_to_many():
    prior = Prior(step=4, intercept=-1.0, steep=0.1, far=0.1)
    silent = calibrate(shares(np.zeros((1, 9, 2)), 1e-6), prior)
    assert silent.slope == 2.0
    assert silent.intercepts[0] == pytest.approx(-1.0, abs=1e-3)
    assert calibrate(shares(items(1.0, (0.5,)), 1e8), prior).intercepts[0] == pytest.approx(0.5, abs=0.05)


def test_what_a_sample_says_is_believed_with_its_own_uncertainty():
    told = believed(shares(items(2.0, (-1.0,)), 1e6))
    assert told.step == pytest.approx(4.0, abs=0.2)
    assert told.intercept == pytest.approx(-1.0, abs=0.05)
    assert told.steep < 0.1
    assert told.far < 0.1
    assert VAGUE.intercept == 0.0
    unknown = believed(shares(items(2.0, (-1.0,)), 1e-9))
    assert unknown.steep == pytest.approx(1.5, rel=0.1)
    assert unknown.far == pytest.approx(4.0, rel=0.1)
    other = told.shifted(0.7, 0.3, 0.4)
    assert other.intercept == told.intercept + 0.7
    assert (other.steep, other.far) == (math.hypot(told.steep, 0.3), math.hypot(told.far, 0.4))


def test_fine_cuts_are_symmetric():
    assert tuple(-cut for cut in reversed(FINE_CUTS)) == FINE_CUTS


def test_a_forecast_is_the_loss_of_a_threshold_under_what_is_believed():
    """With exact shares it is the loss itself; a vague posterior says that it is vague."""
    exact = shares(items(1.0, (-1.0,)), 1e9)
    chance, masses = chances(SCORES - 1.0), exact.masses(MASS)
    found = forecast(exact, VAGUE, None, masses, (-10.0, 0.0, 10.0))
    wanted = [(MASS * np.where(cut < SCORES, 1.0 - chance, chance)).sum() for cut in (-10.0, 0.0, 10.0)]
    assert [mean for mean, _ in found] == pytest.approx(wanted, abs=2e-3)
    assert all(deviation < 0.01 for _, deviation in found)
    silent = forecast(shares(np.zeros((1, 9, 2)), 1e-9), VAGUE, None, masses, (0.0,))
    assert silent[0][1] > 0.1
