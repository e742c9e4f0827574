"""The profile of a triple far out: nodes reach as far as both Gaussians do."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from common.privacy.theorems.triples import triple_profiles


def test_with_all_mass_on_one_pair_the_bound_is_near_the_profile_of_two_gaussians_wherever_they_lie() -> None:
    # With s = 1 only B and C count, at 10 and 10.5 on a line: H = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu).
    levels, mu = np.array([0.0, 0.1]), 0.5
    exact = ndtr(mu / 2 - levels / mu) - np.exp(levels) * ndtr(-mu / 2 - levels / mu)
    for profile in triple_profiles(1.0, (100.0, 110.25, 105.0)):
        assert profile.chi_squared == math.inf  # none is known, and so none is claimed
        found = profile.at(levels)
        assert (found >= exact).all()
        assert (found <= exact + 0.03).all()
