"""Matched bits: differences are covered at every number of them, whatever was asked, and sharper than losses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local.mechanisms.warner import Warner
from common.statistics.intervals import estimate
from common.statistics.paired import Matches, bounds, mixture
from tests.tiers import for_each

WARNER = Warner(epsilon=1.0)


def bits(generator: np.random.Generator, share: float, count: int) -> np.ndarray:
    return (generator.random(count) < 1 - WARNER.truth + (2 * WARNER.truth - 1) * share).astype(np.uint8)


def race_of_two(seed: int, losses: tuple[float, float], both: float, reuse: int = 1) -> bool:
    """Return whether the interval ever misses: first answers about losses, then about sole errors.

    ``both`` is the share on whom both err; ``reuse``: how often each answer is counted.
    """
    generator, matches, missed = np.random.default_rng(seed), Matches(), False
    for heat, size in enumerate((50, 100, 200, 400, 800)):
        first, second = (loss - (both if heat > 1 else 0.0) for loss in losses)
        found = Matches.of(bits(generator, first, size), bits(generator, second, size))
        for _ in range(reuse):
            matches += found
        low, high = bounds(WARNER, matches, 0.2, planned=1500)
        missed |= not low <= losses[0] - losses[1] <= high
    return missed


def test_bits_are_matched_by_their_order_as_far_as_both_reach() -> None:
    first, second = np.array([1, 1, 0, 0, 1], dtype=np.uint8), np.array([1, 0, 1, 0], dtype=np.uint8)
    found = Matches.of(first, second)
    assert (found.ups, found.same, found.downs, found.count) == (1, 2, 1, 4)
    assert found + found == Matches(2, 4, 2)


def test_the_weights_of_all_mixtures_add_up_to_one_at_most() -> None:
    """Else the mixture of martingales would start above 1, and Ville's inequality would say less."""
    for planned in (0, 1, 30, 1000, 10**6, 10**15):
        assert math.fsum(map(math.exp, mixture(planned, 0.01))) <= 1.0


def test_a_plan_makes_the_interval_narrower_where_it_is_right_and_little_wider_elsewhere() -> None:
    for count, factor in ((20_000, 0.97), (2_000, 1.05), (200_000, 1.05)):
        matches = Matches(count // 4, count // 2, count // 4)
        (low, high), (less, more) = (bounds(WARNER, matches, 0.01, planned) for planned in (20_000, 0))
        assert high - low < factor * (more - less)


@for_each(("losses", "both"), [((0.2, 0.2), 0.19), ((0.1, 0.4), 0.05), ((0.5, 0.5), 0.5)])
def test_the_difference_is_covered_at_all_numbers_of_matches_at_once(losses, both) -> None:
    """Of 40 sequences at confidence .8, 8 may miss somewhere; 18 would be 4 standard deviations more."""
    assert sum(race_of_two(seed, losses, both) for seed in range(40)) <= 18


def test_agents_who_are_counted_again_and_again_are_noticed() -> None:
    """A broken twin, which the count above catches."""
    assert sum(race_of_two(seed, (0.2, 0.2), 0.19, reuse=16) for seed in range(40)) > 18


@for_each("errs", [0.1, 0.3, 0.5])
def test_a_matched_difference_is_narrower_than_two_intervals_and_sole_errors_are_narrower_yet(errs) -> None:
    def width(share: float) -> float:
        one = 1 - WARNER.truth + (2 * WARNER.truth - 1) * share
        apart = round(10_000 * one * (1 - one))
        low, high = bounds(WARNER, Matches(apart, 10_000 - 2 * apart, apart), 0.05, planned=10_000)
        return high - low

    ones = round(10_000 * (1 - WARNER.truth + (2 * WARNER.truth - 1) * errs))
    alone = estimate(WARNER, ones, 10_000, 0.95, among=2)
    assert width(errs) < 0.75 * 2 * (alone.high - alone.low)
    assert width(errs / 10) < width(errs)


def test_nothing_is_known_without_answers_and_numbers_out_of_range_are_refused() -> None:
    assert bounds(WARNER, Matches(), 0.1) == (-1.0, 1.0)
    for matches, miss in ((Matches(-1, 2, 0), 0.1), (Matches(1, 1, 1), 0.0), (Matches(1, 1, 1), 1.0)):
        with pytest.raises(BadInput):
            bounds(WARNER, matches, miss)
