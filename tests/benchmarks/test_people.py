"""The comparison of people needed: its formulas, its statistics, and that it goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import binom

from benchmarks.people import __main__ as command
from benchmarks.people.measuring import clopper_pearson, smallest
from benchmarks.people.settings import APPENDIX_D, Gaussians, appendix_d, ladder, settings
from common.learners.base import Calls
from common.planning.plan import resolve


def test_appendix_d_needs_what_the_paper_says() -> None:
    assert APPENDIX_D.paper().people == 324_814_045
    assert APPENDIX_D.paper().rounds == 1000


def test_every_step_of_the_ladder_needs_fewer_people() -> None:
    people = [n for _, n in ladder(1000)]
    assert people == sorted(people, reverse=True)
    assert people[1] == pytest.approx(4.19e7, rel=0.01)  # by Renyi divergences 4.65e7


def test_what_is_run_fits_its_budget() -> None:
    for scenario in (appendix_d(1500), *(setting.tight for setting in settings() if setting.name in ("sparse", "far"))):
        curator = resolve(scenario).curator
        cost = Calls(curator.n, curator.kappa, curator.eta, curator.rounds).spent(curator.settings, curator.delta)
        assert cost <= curator.epsilon


def test_without_a_supremum_the_density_comes_from_a_higher_moment() -> None:
    wide = Gaussians(2, 0.11)
    assert wide.supremum is None
    assert wide.kappa > 6 * (1 - 0.03) * 0.08 / wide.chi_squared


def test_the_interval_is_exact() -> None:
    low, high = clopper_pearson(95, 100, 0.95)
    assert binom.sf(94, 100, low) == pytest.approx(0.025)
    assert binom.cdf(95, 100, high) == pytest.approx(0.025)
    assert clopper_pearson(0, 10, 0.95)[0] == 0.0
    assert clopper_pearson(10, 10, 0.95)[1] == 1.0


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
