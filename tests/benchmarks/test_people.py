"""The comparison of people needed: its formulas, its statistics, and that it goes on where it was stopped."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks import frequencies, heavy_hitters
from benchmarks.frequencies import Rival, compare, finished, line, made, our_rates, ours, summary, true_shares, zipf
from benchmarks.model_agnostic import V, measured, setting, teachers
from benchmarks.people import __main__ as command
from benchmarks.people.measuring import smallest
from benchmarks.people.reductions import NOISE, STEPS, batch_rdp, gaussian_limit, people_by_noise, steps_for
from benchmarks.people.settings import APPENDIX_D, DELTA, EPSILON, appendix_d, ladder, settings
from common.learners.base import Calls
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.features import ItemQuery
from common.numerics.randomness import RandomSource
from common.privacy.budget import cost
from common.privacy.events import SubsampledSteps
from common.privacy.theorems.renyi import closed_form
from common.scenario.plan import resolve
from tests.tiers import for_each


def test_appendix_d_needs_what_the_paper_says_and_every_step_of_the_ladder_fewer_people() -> None:
    paper = APPENDIX_D.paper()
    assert (paper.people, paper.rounds) == (324_814_045, 1000)
    people = [n for _, n in ladder(1000)]
    assert people == sorted(people, reverse=True)
    assert people[1] == pytest.approx(4.19e7, rel=0.01)  # by Renyi divergences 4.65e7


def test_what_is_run_fits_its_budget() -> None:
    for scenario in (appendix_d(1500), *(each.tight for each in settings() if each.name in ("sparse", "far"))):
        curator = resolve(scenario).curator
        cost = Calls(curator.n, curator.kappa, curator.eta, curator.rounds).spent(curator.settings, curator.delta)
        assert cost <= curator.epsilon


def test_the_smallest_n_has_only_good_ones_above_it() -> None:
    entries = [{"n": n, "good": good, "runs": 100} for n, good in ((1000, 96), (1200, 94), (1400, 95), (1600, 99))]
    assert smallest(entries) == 1400
    assert smallest(entries[:2]) is None


@pytest.mark.thorough
def test_the_command_goes_on_where_it_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--points", "parity", "--output", str(tmp_path), "--json"]
    assert command.main([*asked, "--runs", "1"]) == 0
    first = (tmp_path / "people.jsonl").read_bytes()
    capsys.readouterr()
    assert command.main([*asked, "--runs", "2"]) == 0
    (run,) = (line["run"] for line in json.loads(capsys.readouterr().out)["table"] if line["setting"] == "parity")
    after = (tmp_path / "people.jsonl").read_bytes()
    assert (after.startswith(first), after.count(b"\n")) == (True, 2)
    assert (run["good"], run["runs"], run["loss"]["worst"]) == (2, 2, 0.0)
    assert b"<svg" in (tmp_path / "people.svg").read_bytes()


def direct(n: int, chunks: int, draw: np.random.Generator) -> np.ndarray:
    kinds, chunk, x = draw.integers(0, V, n), draw.integers(0, chunks, n), draw.uniform(size=n)
    found = np.empty((V, chunks))
    for kind in range(V):
        for j in range(chunks):
            own = x[(kinds == kind) & (chunk == j)]
            found[kind, j] = (own[own <= 0.5].max(initial=0.0) + own[own > 0.5].min(initial=1.0)) / 2.0
    return found


def test_teachers_have_the_law_of_those_that_learn_from_records():
    draw = np.random.default_rng(1)
    drawn, learned = teachers(8000, 100, 0.0, draw), direct(8000, 100, draw)
    minimizers = teachers(8000, 100, 1e-12, draw)  # by counting mistakes, which nobody makes
    errors = [np.abs(found - 0.5).mean() for found in (drawn, learned, minimizers)]
    assert errors[0] == pytest.approx(V * 100 / (2 * 8000), rel=0.15)
    assert errors[1] == pytest.approx(errors[0], rel=0.12)
    assert errors[2] == pytest.approx(errors[0], rel=0.15)


def test_settings_are_fixed_points_of_the_theorem():
    one, ten = setting("sparse-vector", 1e8, 1000, 0.0), setting("sparse-vector", 1e8, 10_000, 0.0)
    assert one is not None
    assert ten is not None
    assert one.cutoff < ten.cutoff
    assert one.chunks < ten.chunks
    assert setting("sparse-vector", 1e5, 100_000, 0.0) is None


def test_rates_stay_below_their_bounds():
    row = measured("realizable, against m", "sparse-vector", 1e8, 3000, 0.0, 2)
    assert row is not None
    assert row.rate <= row.bound == row.cutoff / 3000
    noisy = measured("agnostic, against m", "gnmax", 1e5, 100, 0.01, 2)
    assert noisy is not None
    assert noisy.rate < 0.1
    assert measured("realizable, against m", "gnmax", 1e4, 100_000, 0.0, 1) is None


def exact(order: int, batch: int, tv_bound: float, ratio: float, middle: float) -> float:
    """Return how far neighbours on a line diverge: from one end of the ball to the other, other draws at ``middle``."""
    x = np.linspace(-12.0, 12.0, 40_001)
    share = binom.pmf(np.arange(batch + 1), batch, tv_bound)

    def law(end: float) -> np.ndarray:
        means = [ratio * (middle * (batch - j) + end * j) / batch for j in range(batch + 1)]
        return np.asarray(sum(p * norm.pdf(x, mean) for p, mean in zip(share, means, strict=True)))

    first, second = law(0.5), law(-0.5)
    return math.log(np.trapezoid(first**order * second ** (1.0 - order), x)) / (order - 1)


def test_the_series_is_above_what_neighbours_on_a_line_diverge_by_and_a_twin_is_caught() -> None:
    """The twin prices a batch as one draw of a b-th of the sensitivity; a batch of one is a single draw."""
    for order, batch in product((2, 3, 8), (2, 4)):
        for middle in (-0.5, 0.0, 0.3, 0.5):
            assert 0.0 < exact(order, batch, 0.05, 1.5, middle) <= batch_rdp(order, 0.05, 1.5, batch)
        assert exact(order, batch, 0.05, 1.5, 0.0) > closed_form(order, 0.05, 1.5 / batch)
        single = closed_form(order, 1 / 1700, 1 / 6)
        assert batch_rdp(order, 1 / 1700, 1 / 6, 1) == pytest.approx(single, rel=1e-9)


def test_the_n_for_a_noise_fits_and_one_less_does_not() -> None:
    n, ratio = people_by_noise(NOISE), math.nextafter(2.0 / NOISE, math.inf)
    enough, few = (SubsampledSteps(count=STEPS, tv_bound=1 / people, ratio=ratio) for people in (n, n - 1))
    assert cost([(enough, 1)], DELTA) <= EPSILON < cost([(few, 1)], DELTA)
    assert gaussian_limit() < n


def test_more_noise_with_more_steps_needs_fewer_people() -> None:
    assert steps_for(NOISE) == STEPS
    assert steps_for(2 * NOISE) == 4 * STEPS
    assert people_by_noise(4.0) > people_by_noise(2 * NOISE)


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
    for shares, how, expected in (
        ([-0.5, 0.5, 1.5], "none", [-0.5, 0.5, 1.5]),
        ([-0.5, 0.5, 1.5], "clipped", [0.0, 0.25, 0.75]),
        ([-0.5, -1.0], "clipped", [0.0, 0.0]),
    ):
        assert finished(np.array(shares), how).tolist() == expected


@for_each("name", ["krr", "olh", "hadamard"])
def test_our_errors_are_the_stated_variance(name):
    """300 repetitions with 200 people and 8 items: within 20%, some 5 standard errors."""
    oracle, errors = made(name, 1.0), []
    for seed in range(300):
        items = zipf(8, 200, seed)
        errors.append(200 * np.mean((ours(oracle, items, 8, seed)[0] - true_shares(items, 8)) ** 2))
    assert np.mean(errors) == pytest.approx(oracle.variance(1 / 8, 8), rel=0.2)


def test_an_equal_library_is_equal_and_a_better_one_is_better(monkeypatch):
    monkeypatch.setattr(frequencies, "SIZES", {8: (500, 60)})
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


@for_each("search", list(heavy_hitters.SEARCHES))
@for_each("name", ["hadamard", "olh"])
def test_every_search_finds_what_most_people_hold(search: str, name: str) -> None:
    oracle = parse_mechanism({"name": name, "epsilon": 5.0})
    assert isinstance(oracle, FrequencyOracle)
    source = RandomSource.seeded(1)
    heavy, items = heavy_hitters.people(np.array([0.9]), 20_000, source)
    query = ItemQuery(bits=64, prefixes=heavy_hitters.lengths(search, oracle), public=3)
    listed = heavy_hitters.SEARCHES[search](query, oracle, heavy_hitters.asked(query, oracle, items, source))
    assert listed.tolist() == heavy.tolist()
