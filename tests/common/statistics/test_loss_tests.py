"""The referee's tests: how often they err, when they end, and that unpaid peeking is caught."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import binom

from common.core.arrays import AnyArray, Floats
from common.local.mechanisms.mechanism import BitMechanism, Mechanism, Warner, parse_mechanism
from common.numerics.randomness import RandomSource
from common.statistics import evidence
from common.statistics.evidence import FixedTest, SequentialTest
from common.statistics.intervals import estimate, tally
from tests.tiers import for_each, thinned

WARNER = parse_mechanism({"name": "warner", "epsilon": 1.0})
NONE = parse_mechanism({"name": "none"})
LAPLACE = parse_mechanism({"name": "laplace", "epsilon": 1.0})
GAUSSIAN = parse_mechanism({"name": "gaussian", "epsilon": 1.0, "delta": 1e-4})
NORMAL = parse_mechanism({"name": "gaussian", "epsilon": 0.5, "delta": 1e-4})
EVERY = [WARNER, NONE, LAPLACE, GAUSSIAN]
Decide = Callable[[Floats, int], Floats]
"""Says, for each possible number of ones after n answers, whether the test gives a certain verdict there."""


def ones_rate(mechanism: Mechanism, loss: float) -> float:
    assert isinstance(mechanism, BitMechanism)
    return (1 - mechanism.truth) + (2 * mechanism.truth - 1) * loss


def exact_probability(rate: float, decide: Decide, looks: int) -> float:
    """The exact probability that Bernoulli(rate) bits ever meet a verdict, looking after every single answer.

    Dynamic programming over the number of ones, absorbing at the verdict: no simulation error.
    """
    alive, absorbed = np.array([1.0]), 0.0
    for n in range(1, looks + 1):
        alive = np.concatenate([alive * (1 - rate), [0.0]]) + np.concatenate([[0.0], alive * rate])
        hit = decide(np.arange(n + 1.0), n)
        absorbed += float(alive[hit].sum())
        alive[hit] = 0.0
    return absorbed


def against(process: evidence.EProcess, miss: float) -> Decide:
    weights = np.log(process.weights)[:, None]
    slopes, offsets = np.array(process.slopes)[:, None], np.array(process.offsets)[:, None]

    def decide(ones: Floats, n: int) -> Floats:
        return np.logaddexp.reduce(weights + slopes * ones - offsets * n, axis=0) >= -math.log(miss)

    return decide


def peeking(mechanism: Mechanism, null: float, miss: float) -> Decide:
    """The broken twin: an exact fixed-n binomial bound, read after every answer as if only once."""

    def decide(ones: Floats, n: int) -> AnyArray:
        lower = beta_law.ppf(miss, ones, n - ones + 1)
        return np.where(ones > 0, lower, 0.0) > ones_rate(mechanism, null)

    return decide


@pytest.mark.parametrize("mechanism", [WARNER, NONE], ids=str)
def test_false_verdicts_are_rarer_than_beta_when_looking_after_every_answer(mechanism: Mechanism) -> None:
    low, high, miss, looks = 0.2, 0.4, 0.05, 1000
    both = evidence.gather(mechanism, low, high)
    for loss, process in ((low, both.above), (high, both.below)):
        assert 0.002 < exact_probability(ones_rate(mechanism, loss), against(process, miss), looks) <= miss


def test_a_broken_twin_is_caught() -> None:
    assert exact_probability(ones_rate(WARNER, 0.2), peeking(WARNER, 0.2, 0.05), 400) > 0.15


def test_the_class_follows_its_e_processes() -> None:
    low, high, miss = 0.2, 0.4, 0.05
    both = evidence.gather(WARNER, low, high)
    above, below = against(both.above, miss), against(both.below, miss)
    for n in (20, 75, 200):
        for ones in range(n + 1):
            test = SequentialTest(WARNER, low, high, miss)
            test.update(ones, n)
            counts = np.array([float(ones)])
            expected = "below" if below(counts, n)[0] else "above" if above(counts, n)[0] else None
            assert test.verdict == expected


@pytest.mark.parametrize("mechanism", [WARNER, NONE], ids=str)
@given(low=st.floats(0.01, 0.6), gap=st.floats(0.02, 0.3), miss=st.floats(1e-9, 0.3), share=st.floats(0, 1))
@settings(max_examples=150, derandomize=True)
def test_it_always_ends_by_the_worst_case(mechanism, low, gap, miss, share):
    test = SequentialTest(mechanism, low, low + gap, miss)
    n = test.worst_case
    test.update(round(share * n), n)
    assert test.verdict is not None


@for_each("mechanism", EVERY, ids=str)
def test_it_ends_by_the_worst_case_on_the_hardest_mean(mechanism: Mechanism) -> None:
    test = SequentialTest(mechanism, 0.2, 0.4, 1e-3)
    middle = evidence.gather(mechanism, 0.2, 0.4).middle
    mean = ones_rate(mechanism, middle) if isinstance(mechanism, BitMechanism) else middle
    test.update(test.worst_case * mean, test.worst_case)
    assert test.verdict is not None
    early = SequentialTest(mechanism, 0.2, 0.4, 1e-3)
    early.update(0.6 * test.worst_case * mean, int(0.6 * test.worst_case))
    assert early.verdict is None


@for_each("mechanism", thinned(EVERY, 2), ids=str)
@for_each("kind", [SequentialTest, FixedTest])
def test_batches_of_real_answers_give_the_right_verdict(mechanism, kind):
    wrong = 0
    for repetition in range(60):
        for loss, right in ((0.2, "below"), (0.4, "above")):
            test, source = kind(mechanism, 0.2, 0.4, 0.01), RandomSource.seeded(repetition, str(mechanism), right)
            while size := test.next_batch(20):
                assert size <= test.worst_case - test.count
                losses = source.bernoullis(loss, size).astype(np.float64)
                test.update(*tally(mechanism, mechanism.randomize(losses, source)))
            wrong += test.verdict != right
    # 120 tests at beta = .01: more than 9 wrong has probability below 2e-6.
    assert wrong <= 9


def exact_error(mechanism: Mechanism, loss: float, size: int, threshold: float) -> float:
    return float(binom.sf(math.floor(threshold * size), size, ones_rate(mechanism, loss)))


@for_each("mechanism", [WARNER, NONE], ids=str)
@for_each("miss", [0.05, 1e-4])
def test_fixed_size_errs_at_most_beta(mechanism: Mechanism, miss: float) -> None:
    test = FixedTest(mechanism, 0.2, 0.4, miss)
    threshold = ones_rate(mechanism, evidence.gather(mechanism, 0.2, 0.4).middle)
    assert exact_error(mechanism, 0.2, test.worst_case, threshold) <= miss
    assert 1 - exact_error(mechanism, 0.4, test.worst_case, threshold) <= miss
    # Chernoff is not far off: half the answers would not do.
    assert exact_error(mechanism, 0.2, test.worst_case // 3, threshold) > miss


@for_each("mechanism", [WARNER, NONE], ids=str)
@for_each("size", [1, 97, 2000])
def test_what_a_given_size_is_worth_bounds_both_exact_tails(mechanism: Mechanism, size: int) -> None:
    for low, high in ((0.2, 0.4), (0.001, 0.1), (0.3, 0.398)):
        bound, threshold = evidence.failure(mechanism, low, high, size), ones_rate(mechanism, (low + high) / 2.0)
        exact = max(exact_error(mechanism, low, size, threshold), 1 - exact_error(mechanism, high, size, threshold))
        assert exact <= bound + 1e-15
        assert bound <= 30.0 * exact or bound < 1e-4


@for_each("mechanism", [LAPLACE, GAUSSIAN], ids=str)
def test_of_answers_that_are_numbers_the_least_size_has_the_threshold_of_a_given_one(mechanism: Mechanism) -> None:
    """So the exponent that bounds the one bounds the other."""
    for low, high in ((0.2, 0.4), (0.001, 0.1), (0.3, 0.398)):
        assert evidence.gather(mechanism, low, high).middle == pytest.approx((low + high) / 2.0, abs=1e-12)
        size = evidence.fixed_size(mechanism, low, high, 0.05)
        assert evidence.failure(mechanism, low, high, size) <= 0.05


def test_fixed_test_of_the_paper() -> None:
    test = FixedTest(GAUSSIAN, 0.16, 0.32, 5e-5, size=74_171)
    assert test.worst_case == test.next_batch(1) == 74_171
    test.update(0.241 * 74_000, 74_000)
    assert test.verdict is None
    assert test.next_batch(1) == 171
    test.update(0.241 * 171, 171)
    assert test.verdict == "above"
    below = FixedTest(GAUSSIAN, 0.16, 0.32, 5e-5, size=10)
    below.update(2.4, 10)
    assert below.verdict == "below"
    stays = SequentialTest(WARNER, 0.16, 0.32, 5e-5)
    for total, count in ((150.0, 300), (90.0, 150), (0.0, 0), (10.0, 225)):
        stays.update(total, count)
        assert stays.verdict == "above"


def test_huge_counts_lose_nothing_on_the_unsafe_side() -> None:
    """Doubles against exact logarithms (mpmath) at a billion answers: never above, never far below."""
    process = evidence.gather(WARNER, 0.16, 0.32).above
    truth = mpmath.mpf(WARNER.truth)  # type: ignore[attr-defined]  # a bit mechanism
    with mpmath.workdps(50):
        null = (1 - truth) + (2 * truth - 1) * mpmath.mpf(0.16)
        assert float(null) == pytest.approx(ones_rate(WARNER, 0.16), rel=1e-15)
        count = 10**9
        for ones in (343_000_000, 343_900_000, 380_000_000):
            total = mpmath.mpf(0)
            for weight, slope in zip(process.weights, process.slopes, strict=True):
                # theta from the slope ln(theta (1-q) / (q (1-theta))), the one number that defines it.
                odds = mpmath.exp(mpmath.mpf(slope)) * null / (1 - null)
                theta = odds / (1 + odds)
                total += weight * mpmath.exp(
                    ones * mpmath.log(theta / null) + (count - ones) * mpmath.log((1 - theta) / (1 - null))
                )
            exact = float(mpmath.log(total))
            found = process.log_value(ones, count)
            assert exact - 1e-3 * abs(exact) - 1 < found <= exact


def test_what_the_test_says_of_itself_is_what_it_decides_by() -> None:
    test = SequentialTest(WARNER, 0.16, 0.32, 0.001)
    begun: Any = test.reached()
    assert (begun.answers, begun.worst_case) == (0, test.worst_case)
    assert (begun.needed, begun.above) == pytest.approx((math.log(1000), 0.0), abs=1e-9)
    while test.verdict is None:
        reached: Any = test.reached()
        assert max(reached.above, reached.below) < reached.needed
        test.update(20, 25)
    ended: Any = test.reached()
    assert ended.above >= ended.needed
    assert ended.answers == test.count
    assert FixedTest(WARNER, 0.16, 0.32, 0.001).reached().needed is None


@pytest.mark.parametrize(("loss", "least"), [(0.08, 0.01), (0.12, 0.017)])
def test_the_middle_of_an_interval_is_biased_after_a_stop_and_its_ends_hold(loss: float, least: float) -> None:
    """Of tests of .08 against .16 that ended below: the middle is too low by more than four standard errors."""
    mechanism, generator = Warner(epsilon=0.5), np.random.default_rng(1)
    chance = (1.0 - mechanism.truth) + (2.0 * mechanism.truth - 1.0) * loss
    found = []
    for _ in range(400):
        test = SequentialTest(mechanism, 0.08, 0.16, 0.05 / 3.0)
        while test.verdict is None:
            batch = test.next_batch(1_000)
            test.update(float(generator.binomial(batch, chance)), batch)
        if test.verdict == "below":
            found.append(estimate(mechanism, test.total, test.count, 0.95))
    errors = [one.value - loss for one in found]
    assert np.mean(errors) < -least
    assert np.mean(errors) < -4.0 * np.std(errors) / len(errors) ** 0.5
    assert sum(not one.low <= loss <= one.high for one in found) <= 0.05 * 400


TEST = (0.16, 0.32, 5e-5)


def pair(mechanism: Mechanism) -> evidence.EProcesses:
    return evidence.gather(mechanism, *TEST[:2])


KNOWN: list[tuple[Callable[[Any], float], tuple[float, float, float]]] = [
    (lambda m: evidence.worst_case(m, *TEST), (3880, 7385, 280404)),
    (lambda m: evidence.fixed_size(m, *TEST), (3404, 6478, 245973)),
    (lambda m: evidence.typical(m, *TEST, 0.5), (235, 447, 16748)),
    (lambda m: evidence.typical(m, *TEST, 0.01), (262, 510, 19170)),
    (lambda m: pair(m).rate, (0.0029105942215781333, 0.0015290443814997717, 4.026276465631321e-05)),
    (lambda m: pair(m).above.log_value(80.0, 250), (-2.851437085685193, 0.7941175361232921, -0.07544908372226229)),
    (lambda m: pair(m).below.log_value(40.0, 250), (28.260156455969643, 1.1860722073342733, 0.02835170420754691)),
    (lambda m: pair(m).above.slack(1e5, 3e5), (2.5076612477688614e-08, 5.6005425108537145e-09, 4.30540961923292e-09)),
    (lambda m: pair(m).above.slopes[-1], (1.6504853793718257, 0.3533838096504635, 0.010568975681712398)),
    (lambda m: estimate(m, 130.0, 400, 0.95).low, (0.0, 0.03579834408283206, 0.0)),
    (lambda m: estimate(m, 130.0, 400, 0.95).high, (0.3064988689959173, 0.614201655916986, 1.0)),
    (lambda m: estimate(m, 40000.0, 100000, 0.99).high, (0.29906077256190805, 0.42126925846041574, 0.5311265206068131)),
]
"""What each is for Warner's bit, for Laplace noise and for Gaussian noise."""
SINGLE: list[tuple[Callable[[], float], float]] = [
    (lambda: evidence.best_rate(LAPLACE, 0.1), 0.04771184977975716),
    (lambda: estimate(WARNER, 0.0, 30, 0.95).high, 0.0),
]


@for_each(
    ("number", "known"),
    [*((partial(f, m), n) for f, ns in KNOWN for m, n in zip((WARNER, LAPLACE, NORMAL), ns, strict=True)), *SINGLE],
)
def test_weights_slacks_and_borders_are_what_they_were(number: Callable[[], float], known: float) -> None:
    assert number() == pytest.approx(known, rel=2e-14, abs=1e-18)


def test_the_sequential_test_asks_for_half_of_what_came_and_for_no_more_than_is_left() -> None:
    test = SequentialTest(WARNER, 0.16, 0.32, 5e-5)
    assert test.next_batch(100) == 100
    asked = []
    while test.verdict is None:
        asked.append(test.next_batch(101))
        # Ones as with a loss of 0.2372, near which neither null falls fast.
        ones = round(0.37855 * (test.count + asked[-1]))
        test.update(total=ones - round(test.total), count=asked[-1])
    assert asked == [101, 51, 76, 114, 171, 257, 385, 578, 867, 1280]
    assert test.count == test.worst_case
    assert test.next_batch(100) == 0
