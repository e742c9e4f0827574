"""The comparison of frequency oracles: its data, its errors, and what it says when there is nothing to compare with."""

from typing import Any

import numpy as np
import pytest

from benchmarks import frequencies, heavy_hitters
from benchmarks.frequencies import (
    Rival,
    compare,
    finished,
    line,
    made,
    our_rates,
    ours,
    summary,
    true_shares,
    zipf,
)
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.features import ItemQuery
from common.numerics.randomness import RandomSource

SIZES = {8: (500, 60)}


def slow(boost: float) -> Rival:
    """A library of our own: k-ary response person by person, with ``boost`` times the epsilon that it should have."""

    def make(epsilon: float, k: int) -> Any:
        generator = np.random.default_rng(1)
        p = np.exp(boost * epsilon) / (np.exp(boost * epsilon) + k - 1)
        q = (1 - p) / (k - 1)

        def client(items: list[int]) -> list[int]:
            return [item if generator.random() < p else int(item + generator.integers(1, k)) % k for item in items]

        def server(answers: list[int]) -> Any:
            return (np.bincount(answers, minlength=k) / len(answers) - q) / (p - q)

        return client, server

    return Rival("krr", "plain", f"{boost:g}", "none", 8, make)


def test_shares_are_finished_as_multi_freq_ldpy_does():
    assert finished(np.array([-0.5, 0.5, 1.5]), "none").tolist() == [-0.5, 0.5, 1.5]
    assert finished(np.array([-0.5, 0.5, 1.5]), "clipped").tolist() == [0.0, 0.25, 0.75]
    assert finished(np.array([-0.5, -1.0]), "clipped").tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["krr", "olh", "hadamard"])
def test_our_errors_are_the_stated_variance(name):
    """300 repetitions with 200 people and 8 items: within 20%, some 5 standard errors."""
    oracle, errors = made(name, 1.0), []
    for seed in range(300):
        items = zipf(8, 200, seed)
        errors.append(200 * np.mean((ours(oracle, items, 8, seed)[0] - true_shares(items, 8)) ** 2))
    assert np.mean(errors) == pytest.approx(oracle.variance(1 / 8, 8), rel=0.2)


def test_an_equal_library_is_equal_and_a_better_one_is_better(monkeypatch):
    monkeypatch.setattr(frequencies, "SIZES", SIZES)
    speed = our_rates(made("krr", 1.0), 8, 1000)
    equal, better = (compare(slow(boost), 1.0, 8, speed) for boost in (1.0, 2.0))
    assert equal.as_good
    assert 0.1 < equal.large < 10
    assert equal.stated == pytest.approx(equal.error, rel=0.5)
    assert abs(equal.ratio - 1) < equal.spread < 0.5
    assert not better.as_good
    assert equal.faster > 0
    assert equal.rates.people == equal.their_rates.people == 1000
    assert line(equal).startswith("krr      plain 1")
    assert summary([equal, better]).startswith("errors equal or better in 1 of 2 comparisons")


@pytest.mark.parametrize("search", list(heavy_hitters.SEARCHES))
@pytest.mark.parametrize("name", ["hadamard", "olh"])
def test_every_search_finds_what_most_people_hold(search: str, name: str) -> None:
    oracle = parse_mechanism({"name": name, "epsilon": 5.0})
    assert isinstance(oracle, FrequencyOracle)
    source = RandomSource.seeded(1)
    heavy, items = heavy_hitters.people(np.array([0.9]), 20_000, source)
    query = ItemQuery(bits=64, prefixes=heavy_hitters.lengths(search, oracle), public=3)
    listed = heavy_hitters.SEARCHES[search](query, oracle, heavy_hitters.asked(query, oracle, items, source))
    assert listed.tolist() == heavy.tolist()
