"""The distribution function: Theorem 2.15 with this implementation's own constants, measured; and its parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from common.arrays import Floats
from common.errors import BadInput
from common.mechanisms.hadamard import HadamardResponse
from common.queries.item import ItemQuery
from common.randomness import RandomSource
from referee.estimation.cdf import Cdf, agents_needed, error, estimate_cdf, ladder, largest_sum
from referee.protocols.base import Answers
from tests.referee.estimation.test_frequency import ORACLES, ask, oracle_of

BITS = 8
EVERY = np.arange(1 << BITS, dtype=np.uint64)
ORACLE = HadamardResponse(epsilon=3.0)


def law(name: str) -> Floats:
    """The share of each item of 8 bits."""
    shares = np.zeros(1 << BITS)
    if name == "uniform":
        shares[:] = 1.0
    elif name == "two atoms":
        shares[[0x65, 0x66]] = [0.3, 0.7]
    elif name == "ends":
        shares[[0, 255]] = 1.0
    elif name == "worst path":
        # The thresholds with the greatest variance: their places in the nodes of the path alternate around 2/5 and 3/5.
        shares[[0x65, 0x66, 0x99, 0x9A]] = 1.0
    else:
        shares[:] = 0.5 ** np.arange(256)
    return shares / shares.sum()


def off(shares: Floats, n: int, cuts: int, seed: int, prefixes: tuple[int, ...]) -> float:
    """The greatest error over all items of one run."""
    source = RandomSource.seeded(seed, "people")
    below = np.cumsum(shares)
    items = np.minimum(np.searchsorted(below, source.uniforms(n), side="right"), 255).astype(np.uint64)
    query = ItemQuery(bits=BITS, prefixes=prefixes, public=seed)
    found = estimate_cdf(query, ORACLE, ask(query, ORACLE, items, seed), cuts)
    return float(np.abs(found(EVERY) - below).max())


@pytest.mark.parametrize("name", ["uniform", "two atoms", "ends", "worst path", "geometric"])
@pytest.mark.parametrize(("n", "cuts"), [(30_000, 60), (8_000, 9)])
def test_the_error_is_as_promised_at_all_thresholds_at_once(name: str, n: int, cuts: int) -> None:
    beta, runs, prefixes = 0.3, 30, ladder(BITS)
    promised = error(ItemQuery(bits=BITS, prefixes=prefixes), ORACLE, n, beta, cuts)
    assert promised < 0.25
    errors = np.array([off(law(name), n, cuts, seed, prefixes) for seed in range(runs)])
    # 30 runs that each fail with probability <= .3: more than this has probability below 1e-6.
    assert np.count_nonzero(errors > promised) <= binom.isf(1e-6, runs, beta)
    # And the promise is of the right size: where the law is the worst one, a quarter of it would be broken at once.
    assert name != "worst path" or np.median(errors) > promised / 4.0


def test_steps_of_two_bits_take_the_fewest_agents() -> None:
    needed = {}
    for step in (1, 2, 3, 4):
        prefixes = tuple(range(16 - 15 // step * step, 17, step))
        needed[step] = agents_needed(ItemQuery(bits=16, prefixes=prefixes), HadamardResponse(epsilon=1.0), 0.05, 0.05)
    assert min(needed, key=lambda step: needed[step]) == 2
    assert ladder(16) == (2, 4, 6, 8, 10, 12, 14, 16)
    assert ladder(5) == (1, 3, 5)
    assert ladder(1) == (1,)
    assert needed[2][0] == pytest.approx(2.24e6, rel=0.01)


def test_agents_needed_is_the_inverse_of_the_error() -> None:
    query = ItemQuery(bits=16, prefixes=ladder(16))
    for tau in (0.1, 0.02):
        n, cuts = agents_needed(query, ORACLE, tau, 0.05)
        assert tau * 0.999 <= error(query, ORACLE, n, 0.05, cuts) <= tau
        assert agents_needed(query, ORACLE, tau, 0.05, cuts=math.ceil(2 / tau))[0] >= n
    coarse, fine = (agents_needed(query, ORACLE, tau, 0.05)[0] for tau in (0.1, 0.05))
    assert fine == pytest.approx(4 * coarse, rel=0.15)
    # b^2 log(b/beta), and not b^3: searches do not meet all 2^b thresholds.
    wide = agents_needed(ItemQuery(bits=64, prefixes=ladder(64)), ORACLE, 0.05, 0.05)[0]
    assert wide < 1.3 * 16 * fine


@pytest.mark.parametrize("steps", [[2, 2, 2], [1, 2, 2, 2], [1] * 7, [3, 4]])
def test_the_largest_variance_is_that_of_the_worst_threshold(steps: list[int]) -> None:
    """Every threshold, from the definition of the weights of the children on its path."""
    sizes = [10 * (1 + k) for k in range(len(steps))]
    bits, largest = sum(steps), 0.0
    for threshold in range(1, 1 << bits):
        total, rest = 0.0, bits
        for step, size in zip(steps, sizes, strict=True):
            node = threshold % (1 << rest)
            rest -= step
            x, child, y = node / 2 ** (rest + step), node >> rest, (node % (1 << rest)) / 2**rest
            weights = [(1.0 if c < child else y if c == child else 0.0) - x for c in range(1 << step)]
            assert sum(weights) == pytest.approx(0.0, abs=1e-12)
            total += sum(weight**2 for weight in weights) / size
        largest = max(largest, total)
    assert largest <= largest_sum(steps, sizes) <= 1.02 * largest


def test_weighted_nodes_have_a_fraction_of_the_variance_of_sums_of_nodes() -> None:
    """16 bits: 15 nodes beside a path of single bits in the worst case; of 8 reports, less than 3/4 of a node each."""
    sums = 15 * 16
    assert 8 * largest_sum([2] * 8, [1] * 8) < sums / 4.9


@pytest.mark.parametrize("name", ORACLES)
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
    some = Answers(9_000, given.values[::2], given.slots[::2])
    assert set(estimate_cdf(query, ORACLE, some, cuts=3).cuts.tolist()) == {20}


def test_it_is_monotone_and_inside_the_unit_interval_whatever_the_answers() -> None:
    for seed in range(20):
        query = ItemQuery(bits=BITS, prefixes=ladder(BITS), public=seed)
        said = RandomSource.seeded(seed).bernoullis(0.5, 60)
        found = estimate_cdf(query, ORACLE, Answers(60, said, np.arange(60)), cuts=50)
        assert np.all(np.diff(found.cuts.astype(np.int64)) >= 0)
        values = found(EVERY)
        assert np.all(np.diff(values) >= 0)
        assert 0.0 < values.min() <= values.max() < 1.0


def test_items_at_a_cut_are_above_it() -> None:
    steps = Cdf(np.array([3, 3, 2**64 - 1], dtype=np.uint64))
    found = steps(np.array([0, 2, 3, 2**64 - 2, 2**64 - 1], dtype=np.uint64))
    np.testing.assert_array_equal(found, [0.125, 0.125, 0.625, 0.625, 0.875])


def test_impossible_numbers_are_refused() -> None:
    query = ItemQuery(bits=8, prefixes=ladder(8))
    none = Answers(0, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))
    with pytest.raises(BadInput, match="cuts"):
        estimate_cdf(query, ORACLE, none, cuts=0)
    with pytest.raises(BadInput, match="prefixes must go up"):
        estimate_cdf(ItemQuery(bits=8, prefixes=(2, 6)), ORACLE, none, cuts=3)
    with pytest.raises(BadInput, match="prefixes must go up"):
        estimate_cdf(ItemQuery(bits=16), ORACLE, none, cuts=3)
    with pytest.raises(BadInput, match="failure probability"):
        error(query, ORACLE, 1000, 1.0, 3)
    with pytest.raises(BadInput, match="fewer than the 4 groups"):
        error(query, ORACLE, 3, 0.1, 3)
    with pytest.raises(BadInput, match="an error must be"):
        agents_needed(query, ORACLE, 0.5, 0.1)
    with pytest.raises(BadInput, match="3 cuts alone"):
        agents_needed(query, ORACLE, 0.1, 0.1, cuts=3)
    with pytest.raises(BadInput, match="allow a larger one"):
        agents_needed(query, ORACLE, 1e-6, 0.1)
