"""Quantiles by noisy binary search: what is said is true as often as promised, and cheaper than a fixed size."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import binom

from common.core.arrays import Words
from common.local.mechanisms.mechanism import Mechanism, Warner, parse_mechanism
from common.local.queries.features import ItemQuery, ThresholdQuery
from common.local.queries.query import Answers
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.statistics import evidence
from common.statistics.calibration import FINE_CUTS, WithinBins, coarser, denoised, middles, project_to_simplex
from common.statistics.cdf import Quantile, Search, find_quantile
from common.statistics.heavy_hitters import find, ladder
from local_agent import answers
from tests.common.statistics.test_frequencies import ORACLES, ask, oracle_of
from tests.tiers import for_each, thinned

WARNER = Warner(epsilon=1.0)
Law = Callable[[int], float]
"""P(x < t) of an item."""


def uniform(bits: int) -> Law:
    return lambda t: t / 2**bits


def two_atoms(t: int) -> float:
    """Half of the people at 700, half at 701: each threshold is far from the median but one."""
    return 0.0 if t <= 700 else 0.5 if t == 701 else 1.0


def flat(t: int) -> float:
    """Most thresholds are just outside the tolerance: .5 - .1 below 700, .5 + .1 above."""
    return 0.0 if t == 0 else 0.4 if t <= 700 else 0.6


def run(search: Search, law: Law, mechanism: Mechanism, seed: int, pool: int = 10**9) -> tuple[Quantile, list[int]]:
    """Feed a search with agents whose items are below t with probability F(t); return it and its batches."""
    source, sizes, step = RandomSource.seeded(seed, "agents"), [], next(search)
    while True:
        size = min(step.count, pool)
        pool -= size
        sizes.append(size)
        values = source.bernoullis(law(cast(ThresholdQuery, step.query).below), size).astype(np.float64)
        try:
            step = search.send(Answers(size, mechanism.randomize(values, source), np.arange(size)))
        except StopIteration as end:
            return end.value, sizes


def holds(found: Quantile, law: Law, share: float, tolerance: float) -> bool:
    return law(found.first) < share + tolerance and law(found.last + 1) > share - tolerance


@for_each("law", [uniform(10), two_atoms, flat], ids=["uniform", "two atoms", "flat"])
@for_each("share", [0.5, 0.25])
def test_what_is_said_fails_no_more_often_than_beta(law: Law, share: float) -> None:
    tolerance, beta, runs = 0.1, 0.3, 60
    failures = 0
    for seed in range(runs):
        found, sizes = run(find_quantile(WARNER, 10, share, tolerance, beta), law, WARNER, seed)
        assert found.first == found.last
        most = evidence.worst_case(WARNER, share - tolerance, share + tolerance, beta / 10)
        assert found.asked == sum(sizes) <= (10 + 4) * most  # with what is waited for a second verdict
        failures += not holds(found, law, share, tolerance)
    # 60 searches that each fail with probability <= .3: more than this has probability below 1e-6.
    assert failures <= binom.isf(1e-6, runs, beta)


def test_each_verdict_may_fail_with_its_own_part_of_beta() -> None:
    below, needed = evidence.gather(WARNER, 0.3, 0.7).below, evidence.needed(0.1 / 4)
    least = next(n for n in range(1, 1000) if below.log_value(n, n) < -needed)  # the other verdict is hopeless then
    for count, threshold in ((least - 1, 8), (least, 4)):
        search = find_quantile(WARNER, 4, 0.5, 0.2, 0.1)
        next(search)
        step = search.send(Answers(count, np.ones(count, dtype=np.uint8), np.arange(count)))
        assert cast(ThresholdQuery, step.query).below == threshold


@for_each("settings", [{"name": "none"}, {"name": "laplace", "epsilon": 1.0}])
def test_other_mechanisms_do_as_well(settings: dict[str, Any]) -> None:
    mechanism = parse_mechanism(settings)
    found, _ = run(find_quantile(mechanism, 8, 0.4, 0.1, 0.01), uniform(8), mechanism, 3)
    assert holds(found, uniform(8), 0.4, 0.1)


def test_an_answer_that_is_exact_is_recognized() -> None:
    """F(512) = .5 at the first threshold: as a rule both verdicts are waited for, and nobody else is asked."""
    searches = [run(find_quantile(WARNER, 10, 0.5, 0.1, 0.01), uniform(10), WARNER, seed)[0] for seed in range(20)]
    at_once = [found for found in searches if found.thresholds == 1]
    assert len(at_once) >= 10
    assert {(found.first, found.last) for found in at_once} == {(512, 512)}


def test_the_ends_of_the_domain_can_be_found() -> None:
    for law, item in ((lambda t: float(t > 0), 0), (lambda t: float(t > 2**64 - 1), 2**64 - 1)):
        found, _ = run(find_quantile(WARNER, 64, 0.5, 0.3, 0.01), law, WARNER, 1)
        assert (found.first, found.last, found.thresholds) == (item, item, 64)


def test_when_agents_run_out_it_says_what_is_left() -> None:
    found, _ = run(find_quantile(WARNER, 10, 0.5, 0.1, 0.01), two_atoms, WARNER, 1, pool=2000)
    assert found.first < found.last
    assert found.asked == 2000
    assert found.first <= 700 <= found.last
    nothing, _ = run(find_quantile(WARNER, 10, 0.5, 0.1, 0.01), two_atoms, WARNER, 1, pool=0)
    assert nothing == Quantile(0, 1023, 0, 1)


def test_silent_agents_only_make_it_longer() -> None:
    search = find_quantile(WARNER, 4, 0.5, 0.2, 0.1)
    first = next(search).count
    assert first == -(-evidence.worst_case(WARNER, 0.3, 0.7, 0.1 / 4) // 8)
    for _ in range(5):
        assert search.send(Answers(first, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))).count == first
    assert search.send(Answers(first, np.arange(10, dtype=np.uint8) % 2, np.arange(10))).count == 5


def test_bins_have_about_the_same_people():
    people = np.array([5.0, -3.0, 15.0, 15.0, 5.0, 10.0])
    within = WithinBins.of(people, coarser(people, 3), np.arange(6.0))
    assert within.starts == (0, 3, 4)
    assert within.middles.tolist() == pytest.approx([1.5, 3.0, 70.0 / 15.0])
    empty = [0.0] * 7  # all in one bin, or nobody at all, still leave two
    for fine, most, cuts in (([0.0, -1.0, 0.0, 0.0], 4, [1]), ([*empty, 100.0], 5, [6]), ([100.0, *empty], 5, [0])):
        assert coarser(np.array(fine), most) == cuts
    assert len(middles(FINE_CUTS)) == len(FINE_CUTS) + 1
    assert middles((0.0,)).tolist() == [-1.0, 1.0]
    assert WithinBins.of(np.array([0.0, 0.0, 4.0, 0.0]), [1], np.arange(4.0)).weights.tolist() == [0.5, 0.5, 1.0, 0.0]
    assert project_to_simplex(np.array([-1.0, -1.0]), 10.0).tolist() == [5.0, 5.0]


@for_each("noise", [0.0, 5.0, 30.0])
def test_empty_bins_are_cleared_of_noise(noise):
    """The nearest counts with the known sum; cutting negative ones off alone would leave half of the noise there."""
    true = np.zeros(32)
    true[10:14] = [300.0, 500.0, 150.0, 50.0]
    noisy = true + np.random.default_rng(3).normal(scale=max(noise, 1e-9), size=32)
    found = project_to_simplex(noisy, 1000.0)
    assert found.sum() == pytest.approx(1000.0)
    assert found.min() >= 0.0
    assert np.abs(found - true).sum() <= np.abs(np.maximum(noisy, 0.0) - true).sum() + 1e-6
    empty = np.delete(found, range(10, 14))
    assert empty.sum() <= 0.55 * np.maximum(np.delete(noisy, range(10, 14)), 0.0).sum() + 1e-6


def test_where_noise_is_all_there_is_people_are_anywhere():
    """The few noisy bins that the projection alone keeps may be near each other, wherever the people are."""
    values, true = middles(FINE_CUTS), np.zeros(32)
    true[np.searchsorted(FINE_CUTS, [-8.5, -3.0, 3.0, 8.5])] = 0.25
    draws = [np.random.default_rng(seed).normal(size=32) for seed in range(40)]

    def least(noise: float, of: Callable[[np.ndarray], np.ndarray]) -> float:
        """Return the least spread of all draws, in units of the true one."""
        spreads = [of(true + noise * draw) @ values**2 for draw in draws]
        return float(np.sqrt(min(spreads) / (true @ values**2)))

    assert least(0.3, lambda shares: project_to_simplex(shares, 1.0)) < 0.3
    assert least(0.3, lambda shares: denoised(shares, 0.3**2)) > 0.5
    for draw in draws:
        shares = true + 1e-3 * draw
        np.testing.assert_allclose(denoised(shares, 1e-6), project_to_simplex(shares, 1.0), atol=1e-6)
    assert denoised(np.zeros(32), 0.1).tolist() == [1.0 / 32.0] * 32


BITS, KEPT, BETA = 40, 32, 0.2


def searched(name: str, epsilon: float, shares: list[float], n: int, seed: int) -> tuple[Words, Words]:
    """Return items that n people hold with these shares, the others any of 2^40, and what is listed of them."""
    oracle, source = oracle_of(name, epsilon), RandomSource.seeded(seed, "people")
    heavy = RandomSource.seeded(seed, "heavy").words(len(shares)) >> np.uint64(64 - BITS)
    others = source.words(n) >> np.uint64(64 - BITS)
    which = np.searchsorted(np.cumsum(shares), source.uniforms(n), side="right")
    items = np.where(which < len(heavy), heavy[np.minimum(which, len(heavy) - 1)], others)
    query = ItemQuery(bits=BITS, prefixes=ladder(BITS, oracle), public=seed)
    return heavy, find(query, oracle, ask(query, oracle, items, seed), BETA, KEPT)


SURE = [("olh", 4_000, 0.1439), ("hadamard", 24_000, 0.1019)]
"""From this share on every item of so many people is listed with probability .8, by exact binomial tails."""


@pytest.mark.parametrize(("name", "n", "share"), thinned(SURE, 1, several=True))
def test_what_is_frequent_is_found_and_nothing_else_is(name: str, n: int, share: float) -> None:
    # As many items with just the share to be found as there can be. 25 runs each fail with probability <= .2.
    found = [searched(name, 3.0, [share] * int(0.9 / share), n, seed) for seed in range(25)]
    failures = sum(set(heavy.tolist()) != set(listed.tolist()) for heavy, listed in found)
    assert failures <= binom.isf(1e-6, 25, BETA)
    # And half of that share is missed as a rule.
    half = [searched(name, 3.0, [share / 2.0] * 4, n, seed) for seed in range(10)]
    assert sum(int(np.isin(heavy, listed).sum()) for heavy, listed in half) < 20


def test_the_most_supported_are_listed_first() -> None:
    for seed in range(20):
        heavy, listed = searched("hadamard", 4.0, [0.3, 0.2, 0.1], 20_000, seed)
        assert listed[:2].tolist() == heavy[:2].tolist()


def test_ladders_end_with_the_whole_item() -> None:
    for name in ORACLES:
        for bits in range(1, 65):
            lengths = ladder(bits, oracle_of(name))
            assert (lengths[-1], sorted(set(lengths))) == (bits, list(lengths))
    assert ladder(64, oracle_of("hadamard")) == (20, 35, 50, 64)
    assert ladder(64, oracle_of("olh")) == (16, 24, 32, 40, 48, 56, 64)


def test_devices_and_search_speak_of_the_same_items() -> None:
    oracle, n = oracle_of("olh", 5.0), 6_000
    query = ItemQuery(first=2, bits=24, prefixes=(12, 24), public=9)
    source = RandomSource.seeded(4)
    features = source.integers(2, n * 26).reshape(n, 26).astype(np.uint8)
    features[: n // 2, 2:] = [1, 0, 1, 1] * 6
    records = Records(features, np.ones(n, dtype=np.int8))
    slots = source.derive("order").words(n).argsort().astype(np.int64)
    values = answers.evaluate(query, records.only(query.columns), slots)
    given = Answers(n, answers.randomize(query, values, oracle, slots, source), slots)
    assert find(query, oracle, given, 0.01, beam=16).tolist() == [0xBBBBBB]


def test_missing_answers_are_no_matter_and_none_at_all_list_nothing() -> None:
    oracle = oracle_of("olh", 5.0)
    query = ItemQuery(bits=20, prefixes=(10, 20))
    items = np.full(4000, 77, dtype=np.uint64)
    given = ask(query, oracle, items, 1)
    some = Answers(4000, given.values[::3], given.slots[::3])
    assert find(query, oracle, some, 0.05, beam=8).tolist() == [77]
    none = Answers(4000, given.values[:0], given.slots[:0])
    assert len(find(query, oracle, none, 0.05, beam=8)) == 0
