"""People by their number, simulated or from a table."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadData, BadScenario
from common.data import population as people_module
from common.data.population import PopulationSpec, SimulatedRecordSource, TableRecordSource, locate, open_records
from tests.tiers import for_each

BALL = {"name": "gaussian-ball", "side": "source", "d": 4, "close": 2, "sigma_source": 1, "sigma_target": 0.7}
SIMULATED = PopulationSpec.model_validate({"distribution": BALL})
TABLE = PopulationSpec.model_validate(
    {
        "table": {
            "files": ["people.csv"],
            "label": {"column": "label", "positive": ["yes"], "negative": ["no"]},
            "features": [{"kind": "number", "column": "x", "low": 0, "high": 100}],
        }
    }
)


@pytest.fixture
def folder(tmp_path):
    lines = ["x,label", *(f"{i},{'yes' if i % 3 else 'no'}" for i in range(100))]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    return tmp_path


def rows(population):
    return np.rint(population.records(np.arange(len(population))).features[:, 0] * 100).astype(int).tolist()


def test_a_simulated_crowd_is_the_distribution(folder):
    population = open_records(SIMULATED, None, seed=3, size=50)
    people = np.array([7, 0, 49])
    assert isinstance(population, SimulatedRecordSource)
    assert (len(population), population.dimension) == (50, 4)
    drawn = SIMULATED.distribution.draw(3, people)
    np.testing.assert_array_equal(population.records(people).features, drawn.features)


def test_many_people_drawn_on_all_cores_are_the_same_people(monkeypatch):
    population, order = open_records(SIMULATED, None, seed=3, size=1000), np.random.default_rng(0).permutation(1000)
    at_once = population.records(order)
    monkeypatch.setattr(people_module, "_SHARE", 64)
    in_shares = population.records(order)
    np.testing.assert_array_equal(in_shares.features, at_once.features)
    np.testing.assert_array_equal(in_shares.labels, at_once.labels)


def test_a_table_crowd_is_the_table_in_an_order_that_the_seed_decides(folder):
    population = open_records(TABLE, folder, seed=3, size=None)
    assert isinstance(population, TableRecordSource)
    assert (len(population), population.dimension) == (100, 1)
    assert rows(population) != list(range(100))
    assert sorted(rows(population)) == list(range(100))
    assert rows(population) == rows(open_records(TABLE, folder, seed=3, size=None))
    assert rows(population) != rows(open_records(TABLE, folder, seed=4, size=None))


def test_features_and_labels_stay_together(folder):
    records = open_records(TABLE, folder, seed=1, size=None).records(np.arange(100))
    number = np.rint(records.features[:, 0] * 100).astype(int)
    np.testing.assert_array_equal(records.labels, np.where(number % 3, 1, -1))


def test_a_part_of_a_table_is_its_first_people(folder):
    assert rows(open_records(TABLE, folder, 3, 20)) == rows(open_records(TABLE, folder, 3, None))[:20]


def test_shifted_simulated_people_are_those_who_follow(folder):
    population, people = open_records(SIMULATED, None, seed=3, size=50), np.arange(10)
    np.testing.assert_array_equal(
        population.shifted(30).records(people).features, population.records(people + 30).features
    )
    assert len(population.shifted(1000)) == 50


def test_a_table_has_no_further_people(folder):
    population = open_records(TABLE, folder, seed=3, size=20)
    assert rows(population.shifted(1000)) == rows(population)


def test_more_people_than_a_table_has_are_refused(folder):
    with pytest.raises(BadData, match="101 people are wanted, the table has fewer that fit"):
        open_records(TABLE, folder, seed=3, size=101)


@for_each("people", [[-1], [50], [0, 50]])
def test_people_who_are_not_there_are_refused(people):
    with pytest.raises(BadData, match=r"numbered 0\.\.49"):
        open_records(SIMULATED, None, seed=3, size=50).records(np.array(people))


def test_nobody_can_be_asked_for(folder):
    for people in (SIMULATED, TABLE):
        assert len(open_records(people, folder, seed=3, size=50).records(np.arange(0))) == 0


def test_a_table_needs_its_directory_and_a_simulation_its_size(folder):
    with pytest.raises(BadScenario, match="key data"):
        open_records(TABLE, None, seed=3, size=10)
    with pytest.raises(BadScenario, match="no size"):
        open_records(SIMULATED, folder, seed=3, size=None)


def test_data_is_found_where_it_is_said_to_be_or_on_the_shelf(tmp_path, monkeypatch):
    (tmp_path / "adult").mkdir()
    monkeypatch.delenv("TANDEM_DATA", raising=False)
    assert locate(str(tmp_path / "adult")) == tmp_path / "adult"
    with pytest.raises(BadScenario, match="there is no directory adult; put the files there"):
        locate("adult")
    monkeypatch.setenv("TANDEM_DATA", str(tmp_path))
    assert locate("adult") == tmp_path / "adult"
    with pytest.raises(BadScenario, match="there is no directory wine nor "):
        locate("wine")
