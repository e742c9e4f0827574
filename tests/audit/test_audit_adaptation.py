"""The noise that the paper prints, measured: at (36, .01) it is not private, by far.

An epsilon of 36 is beyond what frequencies of events can show. But a single iteration releases an exact Gaussian, so
the distance of its means in standard deviations is what there is to know: a mu, and by it the true delta at 36.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from common.privacy.theorems.domain_adaptation import joint_step
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed
from curator.learners.adaptation.algorithms import ConvexSettings, fit_convex
from deploy.auditing.cases.adaptation_cases import SMALL, person

pytestmark = pytest.mark.slow

EPSILON, DELTA, RUNS = 36.0, 0.01, 600


def separation(calibration: str, whole: float) -> tuple[float, float]:
    """Return a lower and an upper estimate, four standard errors apart from the measured one, of one step's mu."""
    common = {"alpha": 0.5, "radius": SMALL, "kappa_2": 0.0, "iterations": 1, "scales_share": 0.1}
    settings = ConvexSettings.parse({**common, "steps": "paper", "calibration": calibration})
    source = RandomSource.seeded(1, "separation")
    drawn = np.array(
        [
            [fit_convex(person(1.0, y), settings, whole, source.derive(side, run))[0] for run in range(RUNS)]
            for side, y in enumerate((1.0, -1.0))
        ]
    )
    spread = float(np.sqrt(drawn.var(axis=1).mean()))
    found = abs(float(drawn[0].mean() - drawn[1].mean())) / spread
    error = math.sqrt(2 / RUNS + found**2 / (4 * RUNS))
    return found - 4 * error, found + 4 * error


def test_the_printed_noise_leaks_at_an_epsilon_of_36() -> None:
    printed = EPSILON / math.sqrt(2 * math.log(3 / DELTA))
    low, high = separation("paper", printed / math.sqrt(0.95))
    assert high > printed / math.sqrt(2) * 0.99 > low  # half of mu^2, nearly the worst pair
    assert delta_of(low, EPSILON) > DELTA  # by w alone; with the private scales' half it would be .968
    assert delta_of(printed, EPSILON) > 0.96


def test_the_exact_noise_keeps_its_delta() -> None:
    mu = mu_allowed(EPSILON, DELTA)
    low, high = separation("tight", mu)
    assert low > 0.85 * mu * math.sqrt(0.95)  # little of the budget is left unused
    assert low <= mu
    assert joint_step(1.0, 0.693) <= 1.0 + 1e-9  # and the private scales' noise comes with it
    assert delta_of(low, EPSILON) <= DELTA
    assert high < 1.1 * mu
