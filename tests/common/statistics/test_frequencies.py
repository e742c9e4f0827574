"""Shares of items: the intervals cover all of them at once, and are no wider than need be."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import binom

from common.core.arrays import Floats, Words
from common.local.mechanisms.frequency import FrequencyOracle, HadamardResponse, public_words
from common.local.mechanisms.mechanism import NoMechanism, Warner, parse_mechanism
from common.local.queries.features import CodeQuery, ItemQuery
from common.local.queries.query import Answers
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.statistics.cdf import Cdf, agents_needed, estimate_cdf, ladder, largest_sum
from common.statistics.frequency import binomial_intervals, likeliest_parity, reports, reports_by_length, signed_shares
from local_agent.answers import evaluate, randomize
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
    assert max(law[lows > rate].sum(), law[highs < rate].sum()) <= 0.05
    assert [end.item() for end in binomial_intervals(counts[:1], 0, 0.1)] == [0.0, 1.0]
    if rate in (0.25, 0.5) and trials == 700:
        assert law[(lows > rate) | (highs < rate)].sum() > 0.07


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


BITS = 4
WARNER = Warner(epsilon=1.0)


def people(n, seed=0):
    """Return people with an item of four bits, a sign and a presence; labels are the parity of the first two bits."""
    features = np.random.default_rng(seed).integers(0, 2, (n, BITS + 2)).astype(np.uint8)
    return Records(features, np.where(features[:, 0] ^ features[:, 1], 1, -1).astype(np.int8))


def codes_ask(query, records, mechanism, seed):
    slots = np.arange(len(records))
    values = evaluate(query, records.only(query.columns), slots)
    answers = randomize(query, values, mechanism, slots, RandomSource.seeded(seed))
    return query, Answers(len(records), answers, slots)


def held(records):
    """Return the share that holds each item with sign +, less that with sign -; absent people hold none."""
    items = records.features[:, :BITS] @ (1 << np.arange(BITS)[::-1])
    signs = (1.0 - 2.0 * records.features[:, BITS]) * records.features[:, BITS + 1]
    return np.bincount(items, weights=signs, minlength=1 << BITS) / len(records)


def test_signed_shares_are_unbiased_and_vary_at_most_as_much_as_claimed():
    records, runs = people(500), 400
    truth = held(records)

    def query(run: int) -> CodeQuery:
        return CodeQuery(first=0, bits=BITS, sign=BITS, present=BITS + 1, public=run)

    found = np.array([signed_shares([codes_ask(query(run), records, WARNER, run)], WARNER) for run in range(runs)])
    most = 1.0 / (len(records) * (2.0 * WARNER.truth - 1.0) ** 2)
    # Sixteen means and variances of 400 runs: five standard errors are exceeded once in 100,000 times.
    assert np.all(np.abs(found.mean(axis=0) - truth) < 5.0 * np.sqrt(most / runs))
    assert np.all(found.var(axis=0, ddof=1) < most * (1.0 + 5.0 * np.sqrt(2.0 / runs)))
    assert found.var(axis=0).mean() > 0.8 * most


def test_several_questions_count_as_one():
    first, second = people(300, 1), people(700, 2)
    asked = [
        codes_ask(CodeQuery(first=0, bits=BITS, sign=BITS, public=p), r, WARNER, p)
        for p, r in ((1, first), (2, second))
    ]
    parts = [signed_shares([one], WARNER) for one in asked]
    np.testing.assert_allclose(signed_shares(asked, WARNER), 0.3 * parts[0] + 0.7 * parts[1], atol=1e-12)


def test_nobody_says_nothing():
    query = CodeQuery(first=0, bits=BITS, public=1)
    nobody = Answers(0, np.empty(0, np.uint8), np.empty(0, np.int64))
    assert not signed_shares([(query, nobody)], WARNER).any()
    assert likeliest_parity([(query, nobody)]) == 0


def test_a_parity_is_found_where_every_row_has_many_agents_and_not_where_it_has_one():
    records = people(20_000)
    short = CodeQuery(first=0, bits=BITS, sign="label", public=3)
    assert likeliest_parity([codes_ask(short, records, WARNER, 1)]) == 0b1100
    few = people(60, 5)
    guesses = [
        likeliest_parity([codes_ask(CodeQuery(first=0, bits=BITS, sign="label", public=k), few, WARNER, k)])
        for k in range(60)
    ]
    assert np.mean(np.array(guesses) == 0b1100) < 0.7


def test_without_noise_the_transform_is_exact_for_each_row():
    records = people(50)
    query = CodeQuery(first=0, bits=BITS, sign=BITS, public=9)
    _, answers = codes_ask(query, records, NoMechanism(), 1)
    rows, items = query.rows(answers.slots), np.arange(1 << BITS)
    signs = 1.0 - 2.0 * answers.values
    inner = np.array([[bin(row & item).count("1") & 1 for item in items] for row in rows])
    expected = (signs[:, None] * (1 - 2 * inner)).mean(axis=0)
    np.testing.assert_allclose(signed_shares([(query, answers)], NoMechanism()), expected)


CDF_BITS = 8
EVERY = np.arange(1 << CDF_BITS, dtype=np.uint64)
ORACLE = HadamardResponse(epsilon=3.0)


def law(places: Sequence[int], shares: Floats | float) -> Floats:
    found = np.zeros(1 << CDF_BITS)
    found[list(places)] = shares
    return found / found.sum()


LAWS = {
    "uniform": law(range(256), 1.0),
    "two atoms": law((0x65, 0x66), np.array([0.3, 0.7])),
    "ends": law((0, 255), 1.0),
    # The thresholds with the greatest variance: their places in the nodes of the path are near 1/3 and 2/3.
    "worst path": law((0x54, 0x55, 0xA9, 0xAA), 1.0),
    "geometric": law(range(256), 0.5 ** np.arange(256)),
}


def off(shares: Floats, n: int, cuts: int, seed: int, prefixes: tuple[int, ...]) -> float:
    source = RandomSource.seeded(seed, "people")
    below = np.cumsum(shares)
    items = np.minimum(np.searchsorted(below, source.uniforms(n), side="right"), 255).astype(np.uint64)
    query = ItemQuery(bits=CDF_BITS, prefixes=prefixes, public=seed)
    found = estimate_cdf(query, ORACLE, ask(query, ORACLE, items, seed), cuts)
    return float(np.abs(found(EVERY) - below).max())


@for_each("name", LAWS)
@for_each(("n", "cuts", "promised"), [(30_000, 60, 0.0935), (8_000, 9, 0.21)])
def test_the_error_is_as_promised_at_all_thresholds_at_once(name: str, n: int, cuts: int, promised: float) -> None:
    beta, runs, prefixes = 0.3, 30, ladder(CDF_BITS)
    assert agents_needed(ItemQuery(bits=CDF_BITS, prefixes=prefixes), ORACLE, promised, beta, cuts)[0] <= n
    errors = np.array([off(LAWS[name], n, cuts, seed, prefixes) for seed in range(runs)])
    # 30 runs that each fail with probability <= .3: more than this has probability below 1e-6.
    assert np.count_nonzero(errors > promised) <= binom.isf(1e-6, runs, beta)
    # And the promise is of the right size: where the law is the worst one, a fifth of it would be broken at once.
    assert name != "worst path" or np.median(errors) > promised / 5.0


def test_known_numbers_of_agents() -> None:
    """Epsilon 1, an error of .05 at all thresholds, beta = .05."""

    def needed(bits: int, tau: float = 0.05, cuts: int = 0) -> tuple[int, int]:
        query = ItemQuery(bits=bits, prefixes=ladder(bits))
        return agents_needed(query, HadamardResponse(epsilon=1.0), tau, 0.05, cuts)

    # b^2 log(b/beta), and not b^3: searches do not meet all 2^b thresholds.
    for bits, millions in ((8, 0.39), (16, 1.72), (64, 27.2)):
        assert needed(bits)[0] == pytest.approx(millions * 1e6, rel=0.01)
    assert needed(16)[0] == pytest.approx(4 * needed(16, 0.1)[0], rel=0.15)
    for tau in (0.1, 0.02):
        assert needed(16, tau, math.ceil(2 / tau))[0] >= needed(16, tau)[0] == needed(16, tau, needed(16, tau)[1])[0]


@for_each("bits", [1, 3, 7])
def test_the_largest_variance_is_that_of_the_worst_threshold(bits: int) -> None:
    """Every threshold, from the weight of every node in its estimate: the search's own arithmetic, fed with units."""
    largest = 0.0
    for threshold in range(1, 1 << bits):
        total = 0.0
        for level in range(1, bits + 1):
            for node in range(1 << level):
                total += weight_of(bits, level, node, threshold) ** 2
        largest = max(largest, total)
    assert largest <= largest_sum(bits) <= 1.01 * largest


def weight_of(bits: int, level: int, node: int, threshold: int) -> float:
    """How often the report on a node counts in the estimate of the share below a threshold.

    By the definition: a node of the path hears about its halves from the five levels below, by inverse variance.
    """
    weight = 0.0
    for depth in range(max(0, level - 5), level):
        if node >> (level - depth) != threshold >> (bits - depth):
            continue
        x = (threshold % (1 << (bits - depth))) / 2 ** (bits - depth)
        lowest = min(depth + 5, bits)
        v = {lowest: 1.0}
        for upper in range(lowest - 1, depth, -1):
            v[upper] = 1.0 / (1.0 + 1.0 / (2.0 * v[upper + 1]))
        share = v[level]  # of the report itself in what is said about its node
        for upper in range(level - 1, depth, -1):
            share *= v[upper] / (2.0 * v[upper + 1])
        lower_half = not (node >> (level - depth - 1)) & 1
        weight += min(x, 1.0 - x) * share * (1.0 if lower_half else -1.0)
    return weight


def test_estimates_are_unbiased_at_every_threshold() -> None:
    """The weights of all nodes that hold an item, and its place in the path's nodes, add up to whether it is below."""
    bits = 7
    for threshold in (1, 37, 64, 101, 127):
        for item in range(1 << bits):
            counted = sum(weight_of(bits, level, item >> (bits - level), threshold) for level in range(1, bits + 1))
            assert threshold / 2**bits + counted == pytest.approx(float(item < threshold), abs=1e-12)


def test_the_search_is_the_plain_one() -> None:
    """Cuts against those of a search over all thresholds, each estimated from the weights of all nodes."""
    bits, cuts = 7, 20
    query = ItemQuery(bits=bits, prefixes=ladder(bits), public=8)
    source = RandomSource.seeded(8)
    answers = ask(query, ORACLE, source.words(7 * 300) >> np.uint64(58), 8)
    reports = reports_by_length(query, answers)
    told = {
        level: ORACLE.shares(came.supports(ORACLE, np.arange(1 << level, dtype=np.uint64)), len(came), query.domain)
        for level, came in reports.items()
    }

    def estimated(threshold: int) -> float:
        nodes = ((level, node) for level in told for node in range(1 << level))
        total = sum(weight_of(bits, level, node, threshold) * told[level][node] for level, node in nodes)
        return threshold / 2**bits + float(total)

    below = {threshold: estimated(threshold) for threshold in range(1, 1 << bits)}
    found = estimate_cdf(query, ORACLE, answers, cuts).cuts
    for level, cut in enumerate(found.tolist(), start=1):
        low, high = 0, 1 << bits
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if below[middle] >= level / (cuts + 1) else (middle, high)
        assert cut == low


@for_each("name", ORACLES)
def test_any_oracle_finds_the_quantiles(name: str) -> None:
    oracle = oracle_of(name, 4.0)
    items = np.sort(RandomSource.seeded(2).words(40_000) >> np.uint64(55))
    order = RandomSource.seeded(3).words(40_000).argsort()
    query = ItemQuery(bits=9, prefixes=ladder(9), public=4)
    found = estimate_cdf(query, oracle, ask(query, oracle, items[order], 5), cuts=3)
    assert np.abs(found.cuts.astype(float) - [128, 256, 384]).max() < 40


def test_missing_answers_do_no_harm_and_none_at_all_mean_uniform() -> None:
    query = ItemQuery(bits=6, prefixes=ladder(6))
    none = Answers(100, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))
    assert estimate_cdf(query, ORACLE, none, cuts=3).cuts.tolist() == [15, 31, 47]
    given = ask(query, ORACLE, np.full(9_000, 20, dtype=np.uint64), 1)
    some = Answers(9_000, given.values[::5], given.slots[::5])
    assert set(estimate_cdf(query, ORACLE, some, cuts=3).cuts.tolist()) == {20}


def test_items_at_a_cut_are_above_it() -> None:
    steps = Cdf(np.array([3, 3, 2**64 - 1], dtype=np.uint64))
    found = steps(np.array([0, 2, 3, 2**64 - 2, 2**64 - 1], dtype=np.uint64))
    np.testing.assert_array_equal(found, [0.125, 0.125, 0.625, 0.625, 0.875])
