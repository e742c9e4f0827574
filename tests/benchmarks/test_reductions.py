"""What else reduces n: the series for minibatches is a bound, and the least n are least."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks.people.reductions import (
    NOISE,
    STEPS,
    batch_rdp,
    gaussian_limit,
    kappa_by_moment,
    people_by_batch,
    people_by_noise,
    steps_for,
)
from benchmarks.people.settings import APPENDIX_D, DELTA, EPSILON, Gaussians
from common.privacy.budget import cost
from common.privacy.calibration import steps_plan
from common.privacy.theorems.renyi import closed_form


@pytest.mark.parametrize("order", [2, 3, 17, 60])
def test_a_batch_of_one_is_a_single_draw(order: int) -> None:
    assert batch_rdp(order, 1 / 1700, 1 / 6, 1) == pytest.approx(closed_form(order, 1 / 1700, 1 / 6), rel=1e-9)


def exact(order: int, batch: int, tv_bound: float, ratio: float, middle: float) -> float:
    """Return how far neighbours on a line diverge: from one end of the ball to the other, other draws at ``middle``."""
    x = np.linspace(-12.0, 12.0, 40_001)
    share = binom.pmf(np.arange(batch + 1), batch, tv_bound)

    def law(end: float) -> np.ndarray:
        means = [ratio * (middle * (batch - j) + end * j) / batch for j in range(batch + 1)]
        return np.asarray(sum(p * norm.pdf(x, mean) for p, mean in zip(share, means, strict=True)))

    first, second = law(0.5), law(-0.5)
    return math.log(np.trapezoid(first**order * second ** (1.0 - order), x)) / (order - 1)


@pytest.mark.parametrize("order", [2, 3, 8])
@pytest.mark.parametrize("batch", [2, 4])
@pytest.mark.parametrize("middle", [-0.5, 0.0, 0.3, 0.5])
def test_the_series_is_above_what_neighbours_on_a_line_diverge_by(order: int, batch: int, middle: float) -> None:
    assert 0.0 < exact(order, batch, 0.05, 1.5, middle) <= batch_rdp(order, 0.05, 1.5, batch)


@pytest.mark.parametrize("order", [2, 3, 8])
@pytest.mark.parametrize("batch", [2, 4])
def test_a_twin_that_forgets_how_often_a_batch_draws_is_caught(order: int, batch: int) -> None:
    """It prices a batch as one draw of a b-th of the sensitivity."""
    assert exact(order, batch, 0.05, 1.5, 0.0) > closed_form(order, 0.05, 1.5 / batch)


def test_batches_save_no_people() -> None:
    people = [people_by_batch(batch) for batch in (1, 2, 4)]
    assert people == sorted(people)


def test_the_n_for_a_noise_fits_and_one_less_does_not() -> None:
    n, ratio = people_by_noise(NOISE), math.nextafter(2.0 / NOISE, math.inf)
    assert (
        cost(steps_plan([1 / n], STEPS, ratio), DELTA) <= EPSILON < cost(steps_plan([1 / (n - 1)], STEPS, ratio), DELTA)
    )
    assert gaussian_limit() < n


def test_more_noise_with_more_steps_needs_fewer_people() -> None:
    assert steps_for(NOISE) == STEPS
    assert steps_for(2 * NOISE) == 4 * STEPS
    assert people_by_noise(4.0) > people_by_noise(2 * NOISE)


def test_a_higher_moment_shows_more() -> None:
    shown = [kappa_by_moment(APPENDIX_D, order) for order in (2.0, 4.0, 16.0)]
    assert shown == sorted(shown, key=lambda kappa: kappa or 0.0)
    assert kappa_by_moment(Gaussians(2, 0.11), 16.0) is None
