"""Planning: known answers, bounds by brute force, searches that end on the private side."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput, BudgetExceeded
from common.privacy.accountants.base import Plan
from common.privacy.budget import cost
from common.privacy.calibration import (
    release_plan,
    sampling_schedule,
    smallest_n,
    steps_plan,
)
from common.privacy.theorems.gaussian_dp import mu_allowed
from tests.tiers import for_each

RATIO = 2.0 / math.sqrt(20.0)


def flat(kappa: float, rounds: int, steps: int) -> Callable[[int], Plan]:
    return lambda n: steps_plan(sampling_schedule(n, kappa, 60.0, rounds)[1:], steps, RATIO)


@for_each(
    ("kappa", "rounds", "steps", "renyi"),
    [
        (0.08 / (4 * 1.35), 1001, 50_000_000, 4.65e7),
        (0.0574, 501, 1_000_000, 1.2e6),
        (0.0574, 501, 100_000, 3.8e5),
    ],
)
def test_sample_sizes_are_near_their_gaussian_limit_which_they_cannot_pass(
    kappa: float, rounds: int, steps: int, renyi: float
) -> None:
    """By Renyi divergences it was 9% more."""
    plan = flat(kappa, rounds, steps)
    n = smallest_n(0.5, 1e-4, kappa, plan)
    limit = math.sqrt((rounds - 1) * steps * math.expm1(RATIO**2)) / (kappa * mu_allowed(0.5, 1e-4))
    assert limit < n < 1.01 * limit < 0.92 * renyi
    assert cost(plan(n), 1e-4) <= 0.5 < cost(plan(n - 1), 1e-4)


def project(weights: np.ndarray, support: float) -> np.ndarray:
    """mu = min(c w, 1) / (kappa n), by bisection on c."""
    low, high = 0.0, 1.0 / weights.min()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.minimum(middle * weights, 1.0).sum() < support else (low, middle)
    return np.minimum(high * weights, 1.0) / support


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    kappa=st.sampled_from([0.3, 0.6, 0.9]),
    eta=st.floats(0.0, 2.0),
    after=st.integers(0, 6),
)
def test_neighbouring_samples_never_differ_by_more_than_the_schedule(
    seed: int, kappa: float, eta: float, after: int
) -> None:
    random, n = np.random.default_rng(seed), 40
    losses = random.integers(0, 2, size=(after, n)).astype(float)
    other = losses.copy()
    other[:, 0] = 1.0 - losses[:, 0] if seed % 2 else random.random(after)
    first, second = (project(np.exp(-eta * (1.0 - table).sum(axis=0)), kappa * n) for table in (losses, other))
    over_records = max(first[0], second[0])
    rest = np.abs(first[1:] - second[1:]).sum()
    assert 0.5 * (rest + first[0] + second[0]) <= over_records + 1e-9
    assert over_records <= sampling_schedule(n, kappa, eta, after + 1)[after] + 1e-9


def test_the_schedule_starts_uniform_and_ends_at_the_cap_from_above() -> None:
    schedule = sampling_schedule(1000, 0.1, 0.5, 20)
    assert 1e-3 <= schedule[0] <= 1e-3 * (1 + 1e-12)
    assert 1e-2 <= schedule[-1] <= 1e-2 * (1 + 1e-12)
    assert list(schedule) == sorted(schedule)
    assert schedule[3] >= math.exp(1.5) / (999 + math.exp(1.5))
    assert sampling_schedule(1000, 0.1, 0.0, 3) == (schedule[0],) * 3


@for_each(
    ("n", "kappa", "eta", "rounds"),
    [
        (100, 0.1, 0.1, 5),
        (1000, 0.0, 0.1, 5),
        (1000, 1.5, 0.1, 5),
        (1000, 0.1, -1.0, 5),
        (1000, 0.1, 0.1, 0),
        (1000, math.nan, 0.1, 1),
    ],
)
def test_a_schedule_out_of_range_is_refused(n: int, kappa: float, eta: float, rounds: int) -> None:
    with pytest.raises(BadInput):
        sampling_schedule(n, kappa, eta, rounds)


def test_the_search_asks_for_few_plans() -> None:
    asked: list[int] = []

    def plan(n: int) -> Plan:
        asked.append(n)
        return flat(0.0574, 501, 100_000)(n)

    n = smallest_n(0.5, 1e-4, 0.0574, plan)
    assert cost(plan(n), 1e-4) <= 0.5 < cost(plan(n - 1), 1e-4)
    assert len(asked) <= 20


def test_a_sample_size_is_never_below_what_the_projection_needs() -> None:
    assert smallest_n(50.0, 1e-2, 0.05, lambda n: []) == 201


def test_the_search_says_when_nothing_fits() -> None:
    with pytest.raises(BudgetExceeded):
        smallest_n(0.5, 1e-5, 0.1, lambda n: release_plan([1.0], 1, 5.0, 0.0))
