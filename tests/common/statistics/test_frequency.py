"""Shares of items: the intervals cover all of them at once, and are no wider than need be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from common.core.arrays import Words
from common.core.errors import BadInput
from common.local.answers import Answers
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.item import ItemQuery
from common.numerics.randomness import RandomSource
from common.statistics.frequency import Shares, binomial_intervals, estimate_shares, reports, reports_by_length
from tests.tiers import for_each

ORACLES = ["krr", "olh", "hadamard"]


def oracle_of(name: str, epsilon: float = 1.0) -> FrequencyOracle:
    found = parse_mechanism({"name": name, "epsilon": epsilon})
    assert isinstance(found, FrequencyOracle)
    return found


def ask(query: ItemQuery, oracle: FrequencyOracle, items: Words, seed: int) -> Answers:
    """What agents with these items say, without records: the query's prefixes, then the oracle."""
    slots = np.arange(len(items))
    cut = np.uint64(query.bits) - np.array(query.lengths, dtype=np.uint64)[slots % len(query.lengths)]
    publics = public_words(query.public, slots)
    said = oracle.randomize(items >> cut, query.domain, publics, RandomSource.seeded(seed, oracle.name))
    return Answers(asked=len(items), values=said, slots=slots)


@for_each("rate", [0.0, 0.003, 0.25, 0.5, 1.0])
@for_each("trials", [1, 40, 700])
def test_binomial_intervals_miss_as_rarely_as_stated_exactly(rate: float, trials: int) -> None:
    counts = np.arange(trials + 1)
    lows, highs = binomial_intervals(counts, trials, 0.1)
    law = binom.pmf(counts, trials, rate)
    assert law[lows > rate].sum() <= 0.05
    assert law[highs < rate].sum() <= 0.05
    if rate in (0.25, 0.5) and trials == 700:
        assert law[(lows > rate) | (highs < rate)].sum() > 0.07


@for_each("name", ORACLES)
def test_all_intervals_of_the_domain_cover_at_once(name: str) -> None:
    oracle, shares = oracle_of(name), np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.05, 0.0, 0.0])
    missed = 0
    for repetition in range(150):
        source = RandomSource.seeded(repetition, "items")
        items = np.searchsorted(np.cumsum(shares), source.uniforms(2000), side="right").astype(np.uint64)
        query = ItemQuery(bits=3, public=repetition)
        came = reports(query, ask(query, oracle, items, repetition))
        supports = came.supports(oracle, np.arange(8, dtype=np.uint64))
        found = estimate_shares(oracle, query.domain, supports, len(came), confidence=0.8)
        missed += not bool(np.all((found.lows <= shares) & (shares <= found.highs)))
    # 150 families that each miss with probability <= .2: more than 56 has probability below 1e-6.
    assert missed <= 56


def test_the_interval_is_that_of_the_exact_variance() -> None:
    oracle, count, share = oracle_of("olh"), 1_000_000, 0.1
    p, q = oracle.rates(1 << 64)
    supports = np.array([round(count * (q + share * (p - q)))])
    found = estimate_shares(oracle, 1 << 64, supports, count, confidence=0.95)
    deviation = math.sqrt(oracle.variance(share, 1 << 64) / count)
    assert found.values[0] == pytest.approx(share, abs=1e-5)
    assert found.highs[0] - found.lows[0] == pytest.approx(2 * 1.96 * deviation, rel=0.02)
    chosen = estimate_shares(oracle, 1 << 64, supports, count, confidence=0.95, among=1000)
    assert chosen.highs[0] - chosen.lows[0] == pytest.approx(2 * 4.06 * deviation, rel=0.02)


def test_groups_are_those_of_the_query() -> None:
    query = ItemQuery(bits=8, prefixes=(8, 3, 8), public=5)
    items = np.arange(30, dtype=np.uint64)
    given = ask(query, oracle_of("olh", 9.0), items, 1)
    answers = Answers(asked=40, values=given.values[10:], slots=given.slots[10:])
    found = reports_by_length(query, answers)
    assert list(found) == [3, 8]
    short, long = np.flatnonzero(answers.slots % 3 == 1), np.flatnonzero(answers.slots % 3 != 1)
    for length, own in ((3, short), (8, long)):
        np.testing.assert_array_equal(found[length].answers, answers.values[own])
        np.testing.assert_array_equal(found[length].publics, public_words(5, answers.slots[own]))
        assert found[length].domain == 256
    assert len(reports(query, answers)) == 20


def test_a_single_estimate_is_inside_the_unit_interval() -> None:
    found = Shares(np.array([-0.2, 1.3]), np.array([0.0, 0.9]), np.array([0.1, 1.0]), 0.9)
    assert (found.estimate(0).value, found.estimate(1).value) == (0.0, 1.0)
    assert found.estimate(0).high == 0.1


def test_no_answers_say_nothing() -> None:
    found = estimate_shares(oracle_of("hadamard"), 8, np.zeros(2, dtype=np.int64), 0, 0.9)
    assert found.lows.tolist() == [0.0, 0.0]
    assert found.highs.tolist() == [1.0, 1.0]


@for_each(
    ("supports", "count", "confidence", "among", "complaint"),
    [
        ([1], 2, 1.0, 1, "confidence"),
        ([1, 1], 2, 0.9, 1, "among"),
        ([3], 2, 0.9, 1, "supported"),
        ([-1], 2, 0.9, 1, "supp"),
    ],
)
def test_impossible_numbers_are_refused(
    supports: list[int], count: int, confidence: float, among: int, complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        estimate_shares(oracle_of("olh"), 8, np.array(supports), count, confidence, among)
