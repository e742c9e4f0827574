"""The own-data example: its people fit its scenario, and its testers mislead."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from common.data.tables import load as load_table
from common.planning.fitting import advice_of
from common.scenario.loading import load

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "own_data"


@pytest.mark.slow
def test_the_invented_people_fit_the_scenario(tmp_path):
    runpy.run_path(str(EXAMPLE / "make_people.py"))["main"](tmp_path)
    scenario = load(str(EXAMPLE / "scenario.yaml"))
    testers, customers = (load_table(tmp_path, side.table) for side in (scenario.source, scenario.target))
    assert (len(testers), len(customers)) == (scenario.curator.n, scenario.agents.count)
    found = advice_of(scenario)
    assert found is not None
    assert (found.protocol, found.rounds, found.warnings) == (scenario.protocol, 1, ())
    assert np.mean(testers.labels == 1) > 1.5 * np.mean(customers.labels == 1)
    model = LogisticRegression(max_iter=1000).fit(customers.features, customers.labels)
    assert model.score(customers.features, customers.labels) > 1 - 2.5 * scenario.alpha
