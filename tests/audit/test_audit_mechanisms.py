"""Agents' mechanisms pass the audit, and twins that are broken on purpose do not.

Each audit claims too much with probability at most 1e-6; seeds are fixed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.arrays import AnyArray
from common.local.mechanisms.mechanism import Mechanism, parse_mechanism
from common.numerics.randomness import RandomSource
from common.privacy.auditing import audit

pytestmark = pytest.mark.slow

RUNS = 200_000
BITS = (np.uint8(0), np.uint8(1))
REALS = (0.0, 1.0)


def once(mechanism: Mechanism) -> Any:
    def subject(value: Any, runs: int, source: RandomSource) -> AnyArray:
        return mechanism.randomize(np.full(runs, value), source)

    return subject


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("inputs", [BITS, REALS, (-5.0, math.inf), (math.nan, 1.0)])
def test_randomized_response_passes_and_the_audit_comes_close(epsilon: float, inputs: tuple[Any, Any]) -> None:
    warner = parse_mechanism({"name": "warner", "epsilon": epsilon})
    found = audit(once(warner), inputs, RandomSource.seeded(1, "warner"), runs=RUNS)
    assert 0.98 * epsilon - 0.1 < found.epsilon <= epsilon


def test_randomized_response_that_tells_the_truth_too_often_is_caught() -> None:
    twin = parse_mechanism({"name": "warner", "epsilon": 1.15})
    assert audit(once(twin), BITS, RandomSource.seeded(2), runs=RUNS).epsilon > 1.0


def test_a_fresh_answer_on_every_retry_is_caught() -> None:
    warner: Any = parse_mechanism({"name": "warner", "epsilon": 1.0})

    def twin(value: Any, runs: int, source: RandomSource) -> AnyArray:
        return warner.randomize(np.full(2 * runs, value), source).reshape(runs, 2)

    assert audit(twin, BITS, RandomSource.seeded(3), runs=RUNS).epsilon > 1.8


def test_no_privacy_is_seen_for_what_it_is() -> None:
    none = parse_mechanism({"name": "none"})
    assert audit(once(none), BITS, RandomSource.seeded(4), runs=RUNS).epsilon > 9.0


def test_laplace_passes_and_half_its_scale_is_caught() -> None:
    for epsilon in (0.5, 1.0):
        right = parse_mechanism({"name": "laplace", "epsilon": epsilon})
        assert 0.8 * epsilon < audit(once(right), REALS, RandomSource.seeded(5), runs=RUNS).epsilon <= epsilon
    twin = parse_mechanism({"name": "laplace", "epsilon": 2.0})
    assert audit(once(twin), REALS, RandomSource.seeded(6), runs=RUNS).epsilon > 1.0


def test_values_that_nobody_clamped_are_caught() -> None:
    def twin(value: float, runs: int, source: RandomSource) -> AnyArray:
        noise = np.random.default_rng(int(source.words(1)[0])).laplace(0.0, 1.0, runs)
        return value + noise

    assert audit(twin, (0.0, 1.0), RandomSource.seeded(7), runs=RUNS).epsilon <= 1.0
    assert audit(twin, (0.0, 3.0), RandomSource.seeded(7), runs=RUNS).epsilon > 1.0


def test_gaussian_noise_passes_at_its_delta_and_half_of_it_is_caught() -> None:
    right: Any = parse_mechanism({"name": "gaussian", "epsilon": 1.0, "delta": 0.01})
    assert audit(once(right), REALS, RandomSource.seeded(8), runs=RUNS, delta=0.01).epsilon <= 1.0

    def twin(value: float, runs: int, source: RandomSource) -> AnyArray:
        return value + 0.5 * (right.randomize(np.full(runs, value), source) - value)

    assert audit(twin, REALS, RandomSource.seeded(9), runs=RUNS, delta=0.01).epsilon > 1.0


def test_a_rare_leak_is_charged_to_delta() -> None:
    def leak(value: float, runs: int, source: RandomSource) -> AnyArray:
        return np.where(source.bernoullis(0.02, runs), 1.0 + value, 0.0)

    assert audit(leak, REALS, RandomSource.seeded(10), runs=RUNS, delta=0.02).epsilon == 0.0
    assert audit(leak, REALS, RandomSource.seeded(10), runs=RUNS, delta=0.001).epsilon > 3.0


def test_an_output_that_is_not_finite_is_an_output_like_any_other() -> None:
    def crash(value: float, runs: int, source: RandomSource) -> AnyArray:
        return np.full(runs, math.nan if value else math.inf)

    assert audit(crash, REALS, RandomSource.seeded(11), runs=2000).epsilon > 4.0
