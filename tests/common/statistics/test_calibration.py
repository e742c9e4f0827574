"""A calibration is found again from shares, exact or noisy; a prior decides where they say little."""

from __future__ import annotations

import numpy as np
import pytest

from common.statistics.bins import FINE_CUTS, coarser, means, middles, octave_quarter
from common.statistics.calibration import VAGUE, Prior, believed, calibrate, chances

SCORES = np.linspace(-3.0, 3.0, 9)
MASS = np.full(9, 1.0 / 9.0)


def shares(slope: float, intercepts: tuple[float, ...]) -> np.ndarray:
    """Return exact shares of people by group, bin and label."""
    found = []
    for intercept in intercepts:
        chance = chances(slope * SCORES + intercept)
        found.append(np.stack([MASS * (1.0 - chance), MASS * chance], axis=1))
    return np.array(found) / len(intercepts)


@pytest.mark.parametrize("step", [-4, 0, 3])
@pytest.mark.parametrize("intercept", [-2.0, 0.3])
def test_it_is_found_from_exact_shares(step, intercept):
    found = calibrate(shares(octave_quarter(step), (intercept,)), SCORES, 1e6)
    assert found.slope == octave_quarter(step)
    assert found.intercepts[0] == pytest.approx(intercept, abs=1e-3)


def test_groups_have_intercepts_of_their_own():
    found = calibrate(shares(1.0, (-1.5, 0.0, 1.0)), SCORES, 1e6)
    assert found.intercepts == pytest.approx((-1.5, 0.0, 1.0), abs=0.01)


def test_noise_of_mean_0_moves_it_little_also_where_shares_come_out_negative():
    """Cutting negative shares off instead would add people of both labels to rare bins, and raise the curve."""
    rng, precision = np.random.default_rng(5), 40_000.0
    rare = shares(1.0, (-3.0,))
    noisy = [rare + rng.normal(scale=precision**-0.5, size=rare.shape) for _ in range(25)]
    found = [calibrate(one, SCORES, precision).intercepts[0] for one in noisy]
    cut = [calibrate(np.maximum(one, 0.0), SCORES, precision).intercepts[0] for one in noisy]
    assert np.median(found) == pytest.approx(-3.0, abs=0.3)
    assert np.median(cut) > np.median(found) + 0.2


def test_a_prior_decides_where_nobody_has_said_anything_and_yields_to_many():
    prior = Prior(step=4, intercept=-1.0, steep=0.1, far=0.1)
    silent = calibrate(np.zeros((1, 9, 2)), SCORES, 1.0, prior)
    assert silent.slope == 2.0
    assert silent.intercepts[0] == pytest.approx(-1.0, abs=1e-6)
    assert calibrate(shares(1.0, (0.5,)), SCORES, 1e6, prior).intercepts[0] == pytest.approx(0.5, abs=0.05)
    told = believed(shares(2.0, (-1.0,)), SCORES, 1e6, 0.1, 0.1)
    assert (told.step, told.steep, told.far) == (4, 0.1, 0.1)
    assert told.intercept == pytest.approx(-1.0, abs=1e-2)
    assert VAGUE.intercept == 0.0


def test_fine_cuts_are_symmetric_and_bins_have_about_the_same_people():
    assert tuple(-cut for cut in reversed(FINE_CUTS)) == FINE_CUTS
    people = np.array([5.0, -3.0, 15.0, 15.0, 5.0, 10.0])
    cuts = coarser(people, 3)
    assert cuts == [2, 3]
    values = np.arange(6.0)
    assert means(people, cuts, values).tolist() == pytest.approx([1.5, 3.0, 70.0 / 15.0])
    assert coarser(np.array([0.0, -1.0, 0.0, 0.0]), 4) == [1]
    assert len(middles(FINE_CUTS)) == len(FINE_CUTS) + 1
    assert middles((0.0,)).tolist() == [-1.0, 1.0]


def test_all_people_in_one_bin_still_leave_two():
    people = np.zeros(8)
    people[7] = 100.0
    assert coarser(people, 5) == [6]
    people[7], people[0] = 0.0, 100.0
    assert coarser(people, 5) == [0]
