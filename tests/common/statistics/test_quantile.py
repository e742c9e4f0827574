"""Quantiles by noisy binary search: what is said is true as often as promised, and cheaper than a fixed size."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from scipy.stats import binom

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.local.answers import Answers, AskAgents
from common.local.mechanisms.mechanism import Mechanism, parse_mechanism
from common.local.mechanisms.warner import Warner
from common.local.queries.threshold import ThresholdQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.statistics import evidence
from common.statistics.quantiles import Quantile, Search, find_quantile, max_agents
from local_agent import answering
from tests.tiers import for_each

WARNER = Warner(epsilon=1.0)
StoppingDistribution = Callable[[int], float]
"""P(x < t) of an item."""


def uniform(bits: int) -> StoppingDistribution:
    return lambda t: t / 2**bits


def two_atoms(t: int) -> float:
    """Half of the people at 700, half at 701: each threshold is far from the median but one."""
    return 0.0 if t <= 700 else 0.5 if t == 701 else 1.0


def flat(t: int) -> float:
    """Most thresholds are just outside the tolerance: .5 - .1 below 700, .5 + .1 above."""
    return 0.0 if t == 0 else 0.4 if t <= 700 else 0.6


def run(
    search: Search, law: StoppingDistribution, mechanism: Mechanism, seed: int, pool: int = 10**9
) -> tuple[Quantile, list[int]]:
    """Feed a search with agents whose items are below t with probability F(t); return it and its batches."""
    source, sizes = RandomSource.seeded(seed, "agents"), []

    def answer(step: AskAgents) -> Answers:
        nonlocal pool
        assert isinstance(step.query, ThresholdQuery)
        size = min(step.count, pool)
        pool -= size
        sizes.append(size)
        values: Floats = source.bernoullis(law(step.query.below), size).astype(np.float64)
        return Answers(size, mechanism.randomize(values, source), np.arange(size))

    return drive(search, answer), sizes


def drive(search: Search, answer: Callable[[AskAgents], Answers]) -> Quantile:
    step = next(search)
    while True:
        try:
            step = search.send(answer(step))
        except StopIteration as end:
            return cast(Quantile, end.value)


def holds(found: Quantile, law: StoppingDistribution, share: float, tolerance: float) -> bool:
    return law(found.first) < share + tolerance and law(found.last + 1) > share - tolerance


@for_each("law", [uniform(10), two_atoms, flat], ids=["uniform", "two atoms", "flat"])
@for_each("share", [0.5, 0.25])
def test_what_is_said_fails_no_more_often_than_beta(law: StoppingDistribution, share: float) -> None:
    tolerance, beta, runs = 0.1, 0.3, 60
    failures = 0
    for seed in range(runs):
        found, sizes = run(find_quantile(WARNER, 10, share, tolerance, beta), law, WARNER, seed)
        assert found.complete
        assert found.asked == sum(sizes) <= max_agents(WARNER, 10, share, tolerance, beta)
        failures += not holds(found, law, share, tolerance)
    # 60 searches that each fail with probability <= .3: more than this has probability below 1e-6.
    assert failures <= binom.isf(1e-6, runs, beta)


def test_each_verdict_may_fail_with_its_own_part_of_beta() -> None:
    """With beta/bits for each threshold false verdicts are rare: none in 60 searches at beta = .01."""
    searches = [run(find_quantile(WARNER, 10, 0.5, 0.1, 0.01), flat, WARNER, seed)[0] for seed in range(60)]
    assert sum(not holds(found, flat, 0.5, 0.1 + 1e-9) for found in searches) <= 6


def test_it_takes_fewer_agents_than_a_fixed_size_for_each_round() -> None:
    """About 25,000 a round for T = 20, tolerance .05, epsilon 1. A smooth law takes about that in all."""
    per_round = evidence.worst_case(WARNER, 0.45, 0.55, 0.05 / 20)
    assert per_round < 7_000
    assert max_agents(WARNER, 20, 0.5, 0.05, 0.05) == 24 * per_round
    for share in (0.5, 0.37, 0.43):
        searches = [run(find_quantile(WARNER, 20, share, 0.05, 0.05), uniform(20), WARNER, seed) for seed in range(10)]
        assert np.mean([found.asked for found, _ in searches]) < 4 * per_round


@pytest.mark.parametrize("name", ["none", "laplace"])
def test_other_mechanisms_do_as_well(name: str) -> None:
    mechanism = parse_mechanism({"name": name} | ({} if name == "none" else {"epsilon": 1.0}))
    assert isinstance(mechanism, Mechanism)
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
    assert not found.complete
    assert found.asked == 2000
    assert found.first <= 700 <= found.last
    nothing, _ = run(find_quantile(WARNER, 10, 0.5, 0.1, 0.01), two_atoms, WARNER, 1, pool=0)
    assert nothing == Quantile(0, 1023, 0, 1)


def test_silent_agents_only_make_it_longer() -> None:
    search = find_quantile(WARNER, 4, 0.5, 0.2, 0.1, first=10)
    step = next(search)
    assert step.count == 10
    for _ in range(5):
        step = search.send(Answers(10, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64)))
        assert step.count == 10
    step = search.send(Answers(10, np.arange(10, dtype=np.uint8) % 2, np.arange(10)))
    assert step.count == 5


def test_devices_answer_what_the_search_asks() -> None:
    source, n = RandomSource.seeded(6), 200_000
    features = source.integers(2, n * 9).reshape(n, 9).astype(np.uint8)
    records = Records(features, np.ones(n, dtype=np.int8))
    items = features[:, 1:] @ (1 << np.arange(7, -1, -1))
    used = 0

    def answer(step: AskAgents) -> Answers:
        nonlocal used
        people, slots = np.arange(used, used + step.count), np.arange(step.count)
        used += step.count
        values = answering.evaluate(step.query, records.take(people).only(step.query.columns), slots)
        return Answers(len(people), answering.randomize(step.query, values, WARNER, slots, source), slots)

    found = drive(find_quantile(WARNER, 8, 0.3, 0.05, 0.01, feature=1), answer)
    assert abs(np.mean(items < found.first) - 0.3) < 0.06


@for_each(
    ("bits", "share", "tolerance", "beta", "complaint"),
    [
        (0, 0.5, 0.1, 0.1, "bits"),
        (65, 0.5, 0.1, 0.1, "bits"),
        (8, 0.1, 0.1, 0.1, "tolerance"),
        (8, 0.95, 0.05, 0.1, "tolerance"),
        (8, 0.5, 0.0, 0.1, "tolerance"),
        (8, 0.5, 0.1, 1.0, "failure"),
    ],
)
def test_impossible_searches_are_refused_before_anybody_is_asked(
    bits: int, share: float, tolerance: float, beta: float, complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        next(find_quantile(WARNER, bits, share, tolerance, beta))
    with pytest.raises(BadInput, match=complaint):
        max_agents(WARNER, bits, share, tolerance, beta)
