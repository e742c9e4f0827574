"""The sparse vector's calibration against exact laws: every transcript of small sequences is enumerated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from common.core.errors import BadInput
from common.privacy.theorems.composition import composed_delta
from common.privacy.theorems.votes import (
    Thresholds,
    calibrated,
    leak,
    printed,
    stability_level,
    stability_margin,
    stability_share,
)
from tests.tiers import for_each

REACH = 400
PRINTED = (100, 1000, 1.0, 1e-6)
"""T, m, epsilon and delta of the erratum's example."""


def noise_law(epsilon: float) -> np.ndarray:
    z = np.arange(-REACH, REACH + 1)
    law = np.exp(-epsilon * np.abs(z))
    return law / law.sum()


def law_of_epoch(distances: tuple[int, ...], thresholds: Thresholds) -> dict[tuple[int, ...], float]:
    """Return the law of one epoch's comparisons, up to its first bottom: 1 for "passes", 0 for bottom."""
    z = np.arange(-REACH, REACH + 1)
    weight, cumulated = noise_law(thresholds.of_threshold), np.cumsum(noise_law(thresholds.of_query))
    below = [cumulated[np.clip(thresholds.level + z - d + REACH, 0, 2 * REACH)] for d in distances]
    found: dict[tuple[int, ...], float] = {}
    passed = weight
    for place in range(len(distances)):
        found[(1,) * place + (0,)] = float((passed * below[place]).sum())
        passed = passed * (1.0 - below[place])
    found[(1,) * len(distances)] = float(passed.sum())
    return found


def test_a_leak_has_the_probability_of_the_exact_law():
    for of_threshold, of_query in ((0.5, 0.3), (0.31, 0.3), (0.2, 0.4)):
        both = np.convolve(noise_law(of_threshold), noise_law(of_query))
        for level in (0, 1, 7, 60):
            exact = float(both[2 * REACH + level + 1 :].sum())
            assert exact <= leak(level, of_threshold, of_query) <= exact * (1.0 + 1e-9) + 1e-15


def test_a_leak_is_that_of_laplace_noise_where_noise_is_wide():
    b, b_query, w = 1000.0, 2000.0, 20_000
    wide = (b_query**2 * math.exp(-w / b_query) - b**2 * math.exp(-w / b)) / (2.0 * (b_query**2 - b**2))
    assert leak(w, 1.0 / b, 1.0 / b_query) == pytest.approx(wide, rel=1e-3)


def test_an_epoch_costs_what_it_states_and_nearly_that_much():
    """All distances up to 3 of up to three queries, and all neighbouring ones."""
    thresholds = Thresholds(cutoff=1, level=2, of_threshold=0.4, of_query=0.3)
    worst = 0.0
    for count in (1, 2, 3):
        laws = {d: law_of_epoch(d, thresholds) for d in itertools.product(range(4), repeat=count)}
        for one, other in itertools.product(laws, repeat=2):
            if max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1:
                ratios = [math.log(laws[one][said] / laws[other][said]) for said in laws[one]]
                worst = max(worst, *ratios)
    assert 0.7 * thresholds.epoch < worst <= thresholds.epoch


def test_many_queries_that_pass_cost_no_more():
    """The longer an epoch, the nearer it comes to its cost; the one bottom at its end pays for all."""
    thresholds = Thresholds(cutoff=1, level=6, of_threshold=0.4, of_query=0.3)
    worst = []
    for count in (1, 10, 60):
        one, other = (law_of_epoch((d,) * count + (last,), thresholds) for d, last in ((9, 1), (10, 0)))
        worst.append(max(abs(math.log(one[said] / other[said])) for said in one))
    assert worst == sorted(worst)
    assert 0.8 * thresholds.epoch < worst[-1] <= thresholds.epoch


def test_labels_leak_no_more_than_the_failure_says_however_many_queries_there_are():
    """T = 1: half of the queries have another winner on the neighbour; the exact delta of everything that is said."""
    epsilon, delta = 1.0, 0.01
    thresholds = calibrated(1, 20, epsilon, delta)
    unstable = (0,) * 20
    law = law_of_epoch(unstable, thresholds)
    # What passes says the winner, which differs: nothing but an immediate bottom is said on both.
    exact = sum(p for said, p in law.items() if said[0] == 1)
    assert exact <= leak(thresholds.level, thresholds.of_threshold, thresholds.of_query)
    assert exact <= thresholds.failure(epsilon) <= delta
    stable_first = law_of_epoch((30,) * 10 + unstable, thresholds)
    leaks = sum(p for said, p in stable_first.items() if len(said) > 11 and said[10] == 1)
    assert leaks <= leak(thresholds.level, thresholds.of_threshold, thresholds.of_query)


@for_each("case", [(1, 10, 0.1, 1e-9), (7, 100, 3.0, 1e-3), PRINTED, (1, 1, 90.0, 0.4)])
def test_a_calibration_ends_on_the_private_side_and_wastes_little(case):
    cutoff, _, epsilon, delta = case
    thresholds = calibrated(*case)
    assert thresholds.failure(epsilon) <= delta
    lower = thresholds._replace(level=thresholds.level - 1)
    assert lower.level < 0 or cutoff * leak(lower.level, *thresholds[2:]) > delta / 2.0
    if epsilon < 60.0:
        narrower = thresholds._replace(of_query=1.01 * thresholds.of_query, of_threshold=1.01 * thresholds.of_threshold)
        assert narrower.failure(epsilon) > 0.5 * delta


def test_the_numbers_of_the_corrections():
    """At n = 50,000, m = 1,000, T = 100, (1, 1e-6): printed, 276,779 chunks; exactly calibrated, nine times fewer."""
    thresholds, chunks = printed(*PRINTED, beta=0.05)
    assert chunks == 276_779
    assert thresholds.failure(1.0) < 1e-6
    margin = calibrated(*PRINTED).margin(0.05 / 1000)
    assert 2 * (margin + 1) / 0.8 == pytest.approx(10_242, abs=100)  # chunks, if nine in ten teachers agree


def test_a_margin_is_the_least_that_is_answered_surely():
    thresholds = calibrated(3, 100, 2.0, 1e-3)
    margin = thresholds.margin(0.01)
    bottoms = [law_of_epoch((d,), thresholds)[(0,)] for d in (margin - 1, margin)]
    assert bottoms[1] <= 0.01 < bottoms[0]


@for_each("epsilon", [0.1, 1.0, 5.0])
def test_the_level_of_a_single_release_is_the_least_that_keeps_delta(epsilon):
    for delta in (0.2, 1e-3, 1e-9):
        level = stability_level(epsilon, delta)
        tails = [math.exp(-epsilon * (w + 1)) / (1.0 + math.exp(-epsilon)) for w in (level - 1, level)]
        assert tails[1] <= delta < tails[0] or level == 0
        assert level <= math.ceil(math.log(1.0 / delta) / epsilon)  # Theorem 2.4


@for_each(("queries", "epsilon", "delta"), [(1, 1.0, 1e-6), (200, 1.0, 1e-6), (50, 20.0, 0.1)])
def test_shares_of_single_releases_compose_to_the_budget_and_use_it(queries, epsilon, delta):
    each, own = stability_share(queries, epsilon, delta)
    assert composed_delta(queries, each, own, epsilon) <= delta
    assert composed_delta(queries, 1.001 * each, own, epsilon) > 0.99 * delta
    margin = stability_margin(0.01, each, own)
    bottom = [
        math.exp(-each * (d - stability_level(each, own))) / (1.0 + math.exp(-each)) for d in (margin - 1, margin)
    ]
    assert bottom[1] <= 0.01 < bottom[0]


@for_each(
    ("call", "says"),
    [
        (lambda: calibrated(0, 1, 1.0, 0.1), "at least 1"),
        (lambda: calibrated(1, 0, 1.0, 0.1), "at least 1"),
        (lambda: calibrated(1, 1, 0.0, 0.1), "epsilon > 0"),
        (lambda: calibrated(1, 1, math.inf, 0.1), "epsilon > 0"),
        (lambda: calibrated(1, 1, 1.0, 0.0), "delta < 1"),
        (lambda: calibrated(10_000, 10_000, 0.1, 1e-9), "lower the cutoff"),
        (lambda: printed(1000, 1000, 100.0, 0.01, 0.05), "do not keep"),
        (lambda: stability_share(0, 1.0, 0.1), "queries >= 1"),
        (lambda: stability_share(100_000, 1.0, 1e-6), "can be drawn"),
        (lambda: leak(-1, 0.1, 0.2), "at least 0"),
        (lambda: leak(1, 0.1, 0.1), "different"),
    ],
)
def test_what_cannot_be_is_refused(call, says):
    with pytest.raises(BadInput, match=says):
        call()


def test_a_failure_of_exactly_delta_is_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thresholds, "failure", lambda self, epsilon: 1e-4)
    assert printed(5, 200, 2.0, 1e-4, 0.05)[1] > 0
    assert calibrated(5, 200, 2.0, 1e-4).cutoff == 5
    with pytest.raises(BadInput, match="do not keep to"):
        printed(5, 200, 2.0, math.nextafter(1e-4, 0.0), 0.05)
