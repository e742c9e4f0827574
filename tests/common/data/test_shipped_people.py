"""The people of the shipped scenarios: what is assumed of S and T is true, and the Adult files are read right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.data.population import locate
from common.data.tables import load as load_table
from common.protocols.base import demands_of
from common.scenario.loading import load, shipped
from tests.tiers import for_each

CHECKOUT = Path(__file__).resolve().parents[3]
SHELF = Path(os.environ.get("TANDEM_DATA", CHECKOUT.parent / "shared" / "data"))
needs_adult = pytest.mark.skipif(
    not (SHELF / "adult" / "adult.data.xz").is_file(), reason="the Adult files are not here (TANDEM_DATA)"
)


REWEIGHED = [name for name in shipped() if demands_of(load(name).protocol).reweighs]
"""Scenarios that rest on a divergence of S and T."""


@for_each("name", REWEIGHED)
def test_the_assumed_divergence_is_no_smaller_than_the_known_one(name):
    scenario = load(name)
    source: Any = scenario.source.distribution
    if scenario.source == scenario.target:
        known = (1.0, 1.0)
    elif source is not None:
        known = (source.chi_squared(), source.supremum())
    elif scenario.source.table.selection is not None:
        known = (scenario.source.table.selection.chi_squared, scenario.source.table.selection.supremum)
    else:
        known = (1.0, 1.0)
    assumed = scenario.divergence
    assert assumed.chi_squared >= known[0] * (1 - 1e-12)
    assert assumed.supremum is None or assumed.supremum >= known[1] * (1 - 1e-12)


@for_each("name", REWEIGHED)
def test_source_and_target_differ_in_who_they_are_at_most(name):
    source, target = load(name).source, load(name).target
    if load(name).problem is not None:
        assert source == target
    elif source.distribution is not None:
        assert (source.distribution.side, target.distribution.side) == ("source", "target")  # type: ignore[attr-defined]
        assert source.distribution == target.distribution.model_copy(update={"side": "source"})
    else:
        who = {"where": target.table.where, "selection": target.table.selection}
        assert source.table.model_copy(update=who) == target.table


@needs_adult
class TestAdult:
    @pytest.fixture(autouse=True)
    def _shelf(self, monkeypatch):
        monkeypatch.setenv("TANDEM_DATA", str(SHELF))

    def read(self, name):
        scenario = load(name)
        folder = locate(scenario.data)
        return load_table(folder, scenario.source.table), load_table(folder, scenario.target.table)

    @pytest.mark.slow
    def test_men_and_women_are_all_there_with_their_known_share_of_high_incomes(self):
        # 21790 + 10860 men and 10771 + 5421 women, rows with '?' included.
        men, women = self.read("adult")
        assert (len(men), len(women)) == (32650, 16192)
        assert np.sum(men.labels == 1) == 9918
        assert np.sum(women.labels == 1) == 1769
        assert men.dimension == women.dimension == 61

    @pytest.mark.slow
    def test_features_are_bounded_as_declared_and_every_one_is_used(self):
        men, women = self.read("adult")
        for people in (men, women):
            assert people.features.min() >= 0
            assert people.features.max() <= 1
            assert np.linalg.norm(people.features.astype(np.float64), axis=1).max() <= 3.0
        assert np.all(np.abs(men.features).sum(axis=0) + np.abs(women.features).sum(axis=0) > 0)

    @pytest.mark.slow
    def test_volunteers_are_enough_and_biased_and_the_population_is_not(self):
        scenario = load("adult-biased")
        volunteers, population = self.read("adult-biased")
        assert len(volunteers) >= scenario.curator.n
        assert len(population) >= scenario.agents.count
        share = 11687 / 48842
        error = np.sqrt(share * (1 - share) / len(population))
        assert abs(np.mean(population.labels == 1) - share) < 6 * error
        assert np.mean(volunteers.labels == 1) < 0.1
