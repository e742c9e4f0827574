"""A noisy count has the noise that its price pays for: its whole epsilon, and no more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from curator.mechanisms.counts import NoisyCount


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_count_has_two_sided_geometric_noise_of_its_epsilon(epsilon: float) -> None:
    ones = np.array([1, 0, 1, 1], dtype=np.uint8)
    mechanism = NoisyCount(epsilon=epsilon)
    assert mechanism.price.epsilon == epsilon
    runs = 400
    noise = np.array([mechanism.apply(iter([ones]), RandomSource.seeded(run)) - 3 for run in range(runs)])
    ratio = math.exp(-epsilon)
    # Its variance is 2 ratio/(1 - ratio)^2; twice or half of epsilon changes it at least threefold.
    assert np.mean(noise.astype(float) ** 2) == pytest.approx(2.0 * ratio / (1.0 - ratio) ** 2, rel=0.6)
    assert abs(np.mean(noise)) < 6.0 * math.sqrt(2.0 * ratio / (1.0 - ratio) ** 2 / runs)
