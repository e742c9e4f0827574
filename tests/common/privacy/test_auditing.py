"""The auditor accuses a private function as rarely as it says, also when it looks several times at the same runs."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom

from common.core.arrays import AnyArray
from common.numerics.randomness import RandomSource
from common.privacy.auditing import LOOKS, exceeds

EPSILON, RUNS = 1.0, 320


def tells(value: int, runs: int, source: RandomSource, epsilon: float = EPSILON) -> AnyArray:
    """Randomized response: exactly epsilon-DP, so that nothing is given away to the auditor."""
    truthful = source.uniforms(runs) < math.exp(epsilon) / (1.0 + math.exp(epsilon))
    return np.where(truthful, value, 1 - value)


def test_a_function_that_is_as_private_as_claimed_is_accused_as_rarely_as_said() -> None:
    failure, tries = 0.3, 100  # so large that accusations happen; each look has its share of it
    accused = sum(
        exceeds(tells, (0, 1), RandomSource.seeded(seed), epsilon=EPSILON, runs=RUNS, failure=failure)
        for seed in range(tries)
    )
    assert accused > 0
    assert binom.sf(accused - 1, tries, failure) > 1e-6


def test_runs_are_looked_at_again_and_none_is_made_after_a_function_is_caught() -> None:
    made: list[int] = []

    def counting(value: int, runs: int, source: RandomSource) -> AnyArray:
        made.append(runs)
        return tells(value, runs, source)

    assert not exceeds(counting, (0, 1), RandomSource.seeded(1), epsilon=EPSILON, runs=RUNS)
    assert sum(made) == 4 * RUNS  # on two inputs, to search and to test; with fresh runs at each look it were more
    made.clear()

    def plain(value: int, runs: int, source: RandomSource) -> AnyArray:
        made.append(runs)
        return np.full(runs, value)

    assert exceeds(plain, (0, 1), RandomSource.seeded(1), epsilon=EPSILON, runs=RUNS, failure=0.5)
    assert sum(made) == 4 * round(LOOKS[0][0] * RUNS)
