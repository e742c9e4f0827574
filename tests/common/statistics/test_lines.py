"""The line of a response on predictions: what agents tell of it, in which direction it moves, and how far."""

import numpy as np
import pytest

from common.statistics.lines import FAR, INSIDE, STEEP, Line, plain
from tests.tiers import for_each

START = Line.of_sample(0.5, 0.1)


def asked(truth: tuple[float, float], line: Line, weighed: bool, people: int = 200_000) -> float:
    """Return the mean residual around a line, weighed or not, of people whose z is standard normal."""
    z = np.random.default_rng(3).normal(size=people)
    apart = truth[0] + truth[1] * z - line.height - line.slope * z
    return float(np.mean(apart * np.clip(z, -1.0, 1.0) if weighed else apart))


def test_a_slope_moves_its_own_residual_by_the_share_of_people_inside():
    z = np.random.default_rng(1).normal(size=2_000_000)
    assert np.mean(z * np.clip(z, -1.0, 1.0)) == pytest.approx(INSIDE, abs=2e-3)


@for_each("truth", [(0.6, 0.05), (0.35, 0.3), (0.5, 0.1)])
def test_residuals_without_noise_lead_to_the_line_of_the_population(truth):
    line = START
    for _ in range(3):
        told = [(asked(truth, line, weighed), weighed) for weighed in (False, True)]
        for mean, weighed in told:
            line = line.posterior(mean, 1e-9, weighed)
    assert (line.height, line.slope) == pytest.approx(truth, abs=3e-3)
    slope, intercept = line.recalibration
    assert slope * START.center + intercept == pytest.approx(line.height)


def test_noise_beyond_what_was_believed_moves_nothing_and_none_leaves_half():
    """An answer as uncertain as the prior counts as much: the posterior mean is halfway."""
    assert START.posterior(0.1, 1e6, False).height == pytest.approx(START.height, abs=1e-6)
    slope = START.posterior(0.05, (STEEP * 0.1 * INSIDE) ** 2, True).slope
    assert slope == pytest.approx(0.1 + 0.05 / INSIDE / 2.0)
    height = START.posterior(0.1, FAR**2, False)
    assert 0.5 < height.height < 0.55  # that z may have another mean on T is noise as well


def test_a_flat_line_is_no_worse_than_a_model_that_says_nothing():
    line = Line.of_sample(0.5, 0.1).posterior(-0.1 * INSIDE, 1e-9, True)
    assert line.slope == pytest.approx(0.0, abs=1e-4)
    assert line.excess(0.5, 0.0) < line.excess(0.5, 0.1)
    assert line.recalibration[0] == 0.05


@for_each("reach", [1.0, 0.25])
def test_answers_are_residuals_again(reach):
    residual = 0.3 * reach
    assert plain(0.5 * (1.0 + residual / reach), 0.01, reach) == pytest.approx((residual, 0.04 * reach**2))
