"""The exact laws of answers, from the parameters and the definitions in the docstrings."""

from typing import Any

from common.local.mechanisms.mechanism import GRID, BitMechanism, Mechanism
from common.local.mechanisms.noise import Laplace
from common.numerics.randomness import RandomSource

PEOPLE = 100_000
SIGMAS = 5.5
"""Means and variances are compared at 5.5 standard errors: 4e-8 each, below 1e-5 over the suites."""


def draw(mechanism: Mechanism, values: Any, seed: int = 7) -> Any:
    return mechanism.randomize(values, RandomSource.seeded(seed, str(mechanism)))


def likelihoods(mechanism: Mechanism, value: float) -> dict[float, float]:
    """The exact law of one answer, from the parameters and the definition in the docstring."""
    if isinstance(mechanism, BitMechanism):
        # What the sampler compares a uniform 53-bit integer with, in integers.
        low = GRID - int(mechanism.truth * GRID)
        ones = low + round(value * (GRID - 2 * low))
        return {1: ones / GRID, 0: (GRID - ones) / GRID}
    assert isinstance(mechanism, Laplace)
    q = mechanism.ratio
    noise = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-41, 42)}
    return {z: value * noise[z - 1] + (1 - value) * noise[z] for z in range(-40, 42)}
