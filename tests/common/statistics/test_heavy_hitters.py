"""Heavy hitters: Theorem 2.18 with this implementation's own constants, measured; and what the search is made of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from common.core.arrays import Words
from common.core.errors import BadInput
from common.local.answers import Answers
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.queries.item import ItemQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.statistics.heavy_hitters import Guarantee, agents_needed, find, guarantee, ladder
from local_agent import answering
from tests.common.statistics.test_frequency import ORACLES, ask, oracle_of
from tests.tiers import for_each, thinned

BITS, KEPT, BETA = 40, 32, 0.2


def planted(heavy: Words, shares: list[float], n: int, seed: int) -> Words:
    """Items of n people drawn from T: each heavy one with its share, the rest uniform over the domain."""
    source = RandomSource.seeded(seed, "people")
    others = source.words(n) >> np.uint64(64 - BITS)
    which = np.searchsorted(np.cumsum(shares), source.uniforms(n), side="right")
    return np.where(which < len(heavy), heavy[np.minimum(which, len(heavy) - 1)], others)


def most_failures(chance: float, runs: int) -> int:
    """More failures than this have probability below 1e-6."""
    return int(binom.isf(1e-6, runs, chance))


@pytest.mark.parametrize(("name", "n"), thinned([("olh", 4_000), ("hadamard", 24_000)], 1, several=True))
def test_what_is_frequent_is_found_and_what_is_rare_is_not_listed(name: str, n: int) -> None:
    oracle, least = oracle_of(name, 3.0), 0.02
    prefixes = ladder(BITS, oracle)
    promised = guarantee(ItemQuery(bits=BITS, prefixes=prefixes), oracle, n, BETA, least, KEPT)
    assert promised.unlisted == least < promised.found < 0.5
    # As many items with just the share to be found as there can be, and some with just the share not to be listed.
    many = int(0.9 / promised.found)
    shares = [promised.found] * many + [least] * 4
    runs, failures = 25, 0
    for run in range(runs):
        heavy = RandomSource.seeded(run, "heavy").words(many + 4) >> np.uint64(64 - BITS)
        query = ItemQuery(bits=BITS, prefixes=prefixes, public=run)
        found = find(query, oracle, ask(query, oracle, planted(heavy, shares, n, run), run), BETA, least, KEPT)
        listed = set(found.items.tolist())
        failures += not set(heavy[:many].tolist()) <= listed or bool(set(heavy[many:].tolist()) & listed)
    assert failures <= most_failures(BETA, runs)


def test_the_guarantee_is_not_far_off() -> None:
    """Half of the share that is surely found is missed as a rule: no other constant would do that is half as large."""
    oracle, n = oracle_of("hadamard", 3.0), 24_000
    prefixes = ladder(BITS, oracle)
    share = guarantee(ItemQuery(bits=BITS, prefixes=prefixes), oracle, n, BETA, 0.0, KEPT).found / 2.0
    found = 0
    for run in range(10):
        heavy = RandomSource.seeded(run, "heavy").words(4) >> np.uint64(64 - BITS)
        query = ItemQuery(bits=BITS, prefixes=prefixes, public=run)
        answers = ask(query, oracle, planted(heavy, [share] * 4, n, run), run)
        found += int(np.isin(heavy, find(query, oracle, answers, BETA, 0.0, KEPT).items).sum())
    assert found < 20


def test_the_intervals_of_what_is_listed_cover() -> None:
    oracle, n, shares = oracle_of("hadamard", 4.0), 20_000, [0.3, 0.2, 0.1]
    missed = 0
    for run in range(20):
        heavy = RandomSource.seeded(run, "heavy").words(3) >> np.uint64(64 - BITS)
        query = ItemQuery(bits=BITS, prefixes=ladder(BITS, oracle), public=run)
        found = find(query, oracle, ask(query, oracle, planted(heavy, shares, n, run), run), BETA, 0.0, KEPT)
        truth = {int(item): share for item, share in zip(heavy, shares, strict=True)}
        assert found.items[:2].tolist() == heavy[:2].tolist()
        for place, item in enumerate(found.items.tolist()):
            interval = found.shares.estimate(place)
            missed += not interval.low <= truth.get(item, 0.0) <= interval.high
    assert missed <= most_failures(BETA, 20)


def test_agents_needed_is_the_inverse_of_the_guarantee() -> None:
    query, oracle = ItemQuery(bits=64, prefixes=(20, 35, 50, 64)), oracle_of("hadamard")
    n = agents_needed(query, oracle, 0.05, 0.05)
    assert guarantee(query, oracle, n, 0.05).found == pytest.approx(0.05, rel=2e-3)
    # Theorem 2.18 to the letter: shares of order sqrt(log(|X|/beta)/n)/epsilon.
    assert agents_needed(query, oracle, 0.025, 0.05) == pytest.approx(4 * n, rel=0.1)
    assert agents_needed(query, oracle, 0.05, 0.05, least=0.02) > 1.5 * n


def test_ladders_end_with_the_whole_item() -> None:
    for name in ORACLES:
        for bits in range(1, 65):
            lengths = ladder(bits, oracle_of(name))
            assert lengths[-1] == bits
            assert sorted(set(lengths)) == list(lengths)
    assert ladder(64, oracle_of("hadamard")) == (20, 35, 50, 64)
    assert ladder(64, oracle_of("olh")) == (16, 24, 32, 40, 48, 56, 64)


@for_each("name", ORACLES)
def test_supports_of_continuations_are_those_of_the_items(name: str) -> None:
    oracle, domain = oracle_of(name), 1 << 12
    source = RandomSource.seeded(5)
    items, publics = source.words(500) >> np.uint64(52), source.words(500)
    answers = oracle.randomize(items, domain, publics, source)
    prefixes = np.array([0, 7, 100], dtype=np.uint64)
    found = oracle.extended_supports(answers, domain, publics, prefixes, 5)
    assert found.shape == (3, 32)
    plain = FrequencyOracle.extended_supports(oracle, answers, domain, publics, prefixes, 5)
    np.testing.assert_array_equal(found, plain)
    assert oracle.supports(answers, domain, publics, np.array([7 * 32 + 3], dtype=np.uint64))[0] == found[1, 3]


def test_devices_and_search_speak_of_the_same_items() -> None:
    """From records through the query and an agent's own randomizer to the list."""
    oracle, n = oracle_of("olh", 5.0), 6_000
    query = ItemQuery(first=2, bits=24, prefixes=(12, 24), public=9)
    source = RandomSource.seeded(4)
    features = source.integers(2, n * 26).reshape(n, 26).astype(np.uint8)
    features[: n // 2, 2:] = [1, 0, 1, 1] * 6
    records = Records(features, np.ones(n, dtype=np.int8))
    slots = source.derive("order").words(n).argsort().astype(np.int64)
    values = answering.evaluate(query, records.only(query.columns), slots)
    answers = Answers(n, answering.randomize(query, values, oracle, slots, source), slots)
    found = find(query, oracle, answers, 0.01, least=0.1, kept=16)
    assert found.items.tolist() == [0xBBBBBB]
    assert found.shares.values[0] == pytest.approx(0.5, abs=0.1)


def test_missing_answers_are_no_matter_and_none_at_all_list_nothing() -> None:
    oracle = oracle_of("olh", 5.0)
    query = ItemQuery(bits=20, prefixes=(10, 20))
    items = np.full(4000, 77, dtype=np.uint64)
    given = ask(query, oracle, items, 1)
    some = Answers(4000, given.values[::3], given.slots[::3])
    assert find(query, oracle, some, 0.05, kept=8).items.tolist() == [77]
    none = Answers(4000, given.values[:0], given.slots[:0])
    assert len(find(query, oracle, none, 0.05, kept=8).items) == 0


@for_each(
    ("beta", "least", "kept", "complaint"),
    [(0.0, 0.0, 4, "failure"), (1.0, 0.0, 4, "failure"), (0.1, 1.0, 4, "nothing is listed"), (0.1, 0.0, 0, "kept")],
)
def test_impossible_numbers_are_refused(beta: float, least: float, kept: int, complaint: str) -> None:
    query, oracle = ItemQuery(bits=8), oracle_of("olh")
    answers = Answers(0, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))
    with pytest.raises(BadInput, match=complaint):
        find(query, oracle, answers, beta, least, kept)
    with pytest.raises(BadInput, match=complaint):
        guarantee(query, oracle, 1000, beta, least, kept)


def test_questions_that_cannot_be_searched_are_refused() -> None:
    oracle = oracle_of("hadamard")
    with pytest.raises(BadInput, match="more lengths"):
        guarantee(ItemQuery(bits=64, prefixes=(25, 64)), oracle, 1000, 0.1)
    with pytest.raises(BadInput, match="more lengths"):
        guarantee(ItemQuery(bits=64, prefixes=(20, 44, 64)), oracle, 1000, 0.1)
    with pytest.raises(BadInput, match="ask more"):
        guarantee(ItemQuery(bits=64, prefixes=(20, 35, 50, 64)), oracle, 100, 0.1)
    with pytest.raises(BadInput, match="share to be found"):
        agents_needed(ItemQuery(bits=8), oracle, 0.1, 0.1, least=0.1)
    assert guarantee(ItemQuery(bits=8), oracle, 10**6, 0.05) == Guarantee(pytest.approx(0.0153, rel=0.01), 0.0)
