"""The comparison of people needed: its formulas, its statistics, and that it goes on where it was stopped."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks.model_agnostic import V, accounting, measured, setting, teachers
from benchmarks.people import __main__ as command
from benchmarks.people.measuring import smallest
from benchmarks.people.reductions import (
    NOISE,
    STEPS,
    batch_rdp,
    gaussian_limit,
    people_by_noise,
    steps_for,
)
from benchmarks.people.settings import APPENDIX_D, DELTA, EPSILON, appendix_d, ladder, settings
from common.learners.base import Calls
from common.privacy.budget import cost
from common.privacy.events import SubsampledSteps
from common.privacy.theorems.renyi import closed_form
from common.scenario.plan import resolve


def test_appendix_d_needs_what_the_paper_says() -> None:
    assert APPENDIX_D.paper().people == 324_814_045
    assert APPENDIX_D.paper().rounds == 1000


def test_every_step_of_the_ladder_needs_fewer_people() -> None:
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


@pytest.mark.slow
def test_the_command_goes_on_where_it_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--points", "parity", "--output", str(tmp_path), "--json"]
    assert command.main([*asked, "--runs", "1"]) == 0
    first = (tmp_path / "people.jsonl").read_bytes()
    capsys.readouterr()
    assert command.main([*asked, "--runs", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    after = (tmp_path / "people.jsonl").read_bytes()
    assert after.startswith(first)
    assert after.count(b"\n") == 2
    run = next(line["run"] for line in found["table"] if line["setting"] == "parity")
    assert run["good"] == run["runs"] == 2
    assert run["loss"]["worst"] == 0.0
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


def test_the_exact_accountant_is_below_renyi_everywhere():
    rows = list(accounting())
    assert all(row["gdp"] < row["rdp"] < 1.2 * row["gdp"] for row in rows)


@pytest.mark.parametrize("order", [2, 3, 17, 60])
def test_a_batch_of_one_is_a_single_draw(order: int) -> None:
    assert batch_rdp(order, 1 / 1700, 1 / 6, 1) == pytest.approx(closed_form(order, 1 / 1700, 1 / 6), rel=1e-9)


def exact(order: int, batch: int, tv_bound: float, ratio: float, middle: float) -> float:
    """Return how far neighbours on a line diverge: from one end of the ball to the other, other draws at ``middle``."""
    x = np.linspace(-12.0, 12.0, 40_001)
    share = binom.pmf(np.arange(batch + 1), batch, tv_bound)

    def law(end: float) -> np.ndarray:
        means = [ratio * (middle * (batch - j) + end * j) / batch for j in range(batch + 1)]
        return np.asarray(sum(p * norm.pdf(x, mean) for p, mean in zip(share, means, strict=True)))

    first, second = law(0.5), law(-0.5)
    return math.log(np.trapezoid(first**order * second ** (1.0 - order), x)) / (order - 1)


@pytest.mark.parametrize("order", [2, 3, 8])
@pytest.mark.parametrize("batch", [2, 4])
@pytest.mark.parametrize("middle", [-0.5, 0.0, 0.3, 0.5])
def test_the_series_is_above_what_neighbours_on_a_line_diverge_by(order: int, batch: int, middle: float) -> None:
    assert 0.0 < exact(order, batch, 0.05, 1.5, middle) <= batch_rdp(order, 0.05, 1.5, batch)


@pytest.mark.parametrize("order", [2, 3, 8])
@pytest.mark.parametrize("batch", [2, 4])
def test_a_twin_that_forgets_how_often_a_batch_draws_is_caught(order: int, batch: int) -> None:
    """It prices a batch as one draw of a b-th of the sensitivity."""
    assert exact(order, batch, 0.05, 1.5, 0.0) > closed_form(order, 0.05, 1.5 / batch)


def test_the_n_for_a_noise_fits_and_one_less_does_not() -> None:
    n, ratio = people_by_noise(NOISE), math.nextafter(2.0 / NOISE, math.inf)
    enough, few = (SubsampledSteps(count=STEPS, tv_bound=1 / people, ratio=ratio) for people in (n, n - 1))
    assert cost([(enough, 1)], DELTA) <= EPSILON < cost([(few, 1)], DELTA)
    assert gaussian_limit() < n


def test_more_noise_with_more_steps_needs_fewer_people() -> None:
    assert steps_for(NOISE) == STEPS
    assert steps_for(2 * NOISE) == 4 * STEPS
    assert people_by_noise(4.0) > people_by_noise(2 * NOISE)
